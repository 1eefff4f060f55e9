"""The example job: its configuration is valid, and its data join to what the README shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.cli import run_command
from app.config import load_config
from app.datafiles import open_data
from app.formats import make_codec
from app.loading import row_conversion
from app.merge import Inbox
from schemas.match_id import split_match_id
from schemas.records import Reason, Side
from tests.lane import Lane, Pushed, named, settings_of
from tests.unit.test_readme import EXAMPLE, README

if TYPE_CHECKING:
    import pytest

    from app.effects import Effects

CONFIG: Final = load_config(EXAMPLE / "job.toml", {})
DRAINED: Final = (True, True)


def records(side: Side, name: str) -> list[Pushed]:
    """The rows of a file as they come out of the side's topic."""
    codec = make_codec(CONFIG)
    conversion = row_conversion(CONFIG, side, codec)
    with open_data(EXAMPLE / name, None) as data:
        keys, values = zip(
            *[
                (str(row.values["key"]).encode(), codec.encode_event(side, record))
                for row in data.rows()
                if (record := conversion.record(row.values))
            ],
            strict=True,
        )
    parts = codec.decode_batch(side, values)
    return [(at, *record, None) for at, record in enumerate(zip(keys, parts, strict=True))]


class FirstJob:
    """The job of the README, in one lane."""

    def __init__(self) -> None:
        self.lane = Lane(settings_of(CONFIG.lateness, CONFIG.max_interval))
        self.inbox = Inbox(self.lane.settings)

    def load(self, side: Side, name: str) -> Effects:
        self.inbox.push(side, records(side, name))
        taken = self.inbox.take(100, DRAINED, CONFIG.max_skew)
        return self.lane.turn([named(arrival) for arrival in taken])


def pairs(effects: Effects, *, live: bool) -> set[tuple[str, str]]:
    return {split_match_id(key) for key, value, _ in effects.matches if (value is not None) is live}


def shown(marks: str) -> set[tuple[str, str]]:
    """The ids of both sides in those lines of the README's first job that begin with a mark."""
    found = re.findall(rf"^[{marks}] .*[|│] (s\d) .*[|│] (f\d) ", README, re.MULTILINE)
    return {(left, right) for left, right in found}


def test_the_configuration_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["validate", "-c", str(EXAMPLE / "job.toml")]) == 0
    said = capsys.readouterr().out.replace(str(EXAMPLE / "job.toml"), "job.toml")
    assert f"```\n{said}```\n" in README


def test_the_data_join_to_the_table_that_is_shown() -> None:
    job = FirstJob()
    assert not job.load(Side.LEFT, "shifts.jsonl").matches
    effects = job.load(Side.RIGHT, "faults.jsonl")
    assert pairs(effects, live=True) == shown("│")
    assert len(effects.matches) == 4
    assert [reject.reason for reject in effects.rejects] == [Reason.LATE, Reason.INVALID_INTERVAL]
    # One row before them goes to the other partition.
    for reject in effects.rejects:
        assert f'"offset":{reject.offset - 1},"detail":"{reject.detail}"' in README


def test_the_correction_changes_what_is_shown() -> None:
    job = FirstJob()
    job.load(Side.LEFT, "shifts.jsonl")
    job.load(Side.RIGHT, "faults.jsonl")
    effects = job.load(Side.LEFT, "corrections.jsonl")
    assert pairs(effects, live=False) == shown("-")
    assert pairs(effects, live=True) == shown("+") - {("s3", "f7")}  # what produce.py writes
    assert not effects.rejects
