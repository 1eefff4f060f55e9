from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.kafka.cluster import Extent, Member
from app.status import lag, lane_status, ownership, show
from state.checkpoint import Checkpoint, Layout, Watermarks
from tests.unit.jobs import job

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT = Checkpoint(
    epoch=3,
    sequence=9,
    writer="job-1",
    owner="me",
    address="",
    released=False,
    left_position=100,
    right_position=50,
    watermarks=Watermarks(5, 9, None),
    rows=7,
    size=700,
    layout=Layout("ms", 10, 50, 15, "c", "l", "r"),
)
ME = Member("me", "/127.0.0.1", {"l": frozenset({0})})
ENDS = (Extent(0, 130, 140), Extent(0, 50, 50))


def test_the_shape() -> None:
    assert lane_status(0, CHECKPOINT, ME, ENDS, Extent(2, 30, 40)) == {
        "lane": 0,
        "phase": "running",
        "epoch": 3,
        "owner": "me",
        "watermark": 5,
        "rows": 7,
        "bytes": 700,
        "left": {"position": 100, "lag": 30, "watermark": 9},
        "right": {"position": 50, "lag": 0, "watermark": None},
        "changelog": {"start": 2, "end": 30},
    }


def test_a_lane_that_nobody_ever_had() -> None:
    nothing = {"position": None, "lag": None, "watermark": None}
    assert lane_status(4, None, None, ENDS, None) == {
        "lane": 4,
        "phase": None,
        "epoch": 0,
        "owner": None,
        "watermark": None,
        "rows": 0,
        "bytes": 0,
        "left": nothing,
        "right": nothing,
        "changelog": {"start": None, "end": None},
    }


RELEASED = replace(CHECKPOINT, released=True)


@pytest.mark.parametrize(
    ("checkpoint", "member", "expected"),
    [
        (None, None, (None, None)),
        (None, ME, (None, "assigned")),
        (CHECKPOINT, ME, ("me", "running")),
        (CHECKPOINT, ME._replace(client_id="you"), (None, "assigned")),
        (CHECKPOINT, None, (None, None)),
        (RELEASED, ME, (None, "assigned")),
        (RELEASED, None, (None, "released")),
    ],
    ids=["new", "first", "runs", "moves", "crashed", "comes back", "released"],
)
def test_owner_and_phase(
    checkpoint: Checkpoint | None, member: Member | None, expected: tuple[str | None, str | None]
) -> None:
    assert ownership(checkpoint, member) == expected


def test_lag_never_is_negative() -> None:
    assert lag(None, Extent(0, 5, 5)) is None
    assert lag(3, Extent(0, 5, 9)) == 2
    assert lag(7, Extent(0, 5, 9)) == 0


def test_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lanes = [
        lane_status(0, CHECKPOINT, ME, ENDS, Extent(2, 30, 40)),
        lane_status(1, None, None, ENDS, None),
    ]
    show(job(tmp_path), {"name": "job", "lanes": lanes})
    text = capsys.readouterr().out
    assert "job: 2 lanes" in text
    assert "1970-01-01 00:00:00.005" in text
    assert "running" in text
