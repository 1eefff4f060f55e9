"""`watermark`: what is written, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import app.watermark
from app.errors import UsageError
from app.formats import make_codec
from app.kafka.cluster import Topic
from app.watermark import send_watermark
from schemas.records import Kind, Side
from tests.unit.jobs import MINIMAL, job

if TYPE_CHECKING:
    from pathlib import Path

    from app.config import Config

PARTITIONS: Final = 3
JSON: Final = '[schema]\nformat = "json"\n'
AT_MS: Final = 1_740_996_000_000


class Loader:
    """Keeps what it is given."""

    put_: list[tuple[bytes | None, bytes, int]]

    def __init__(self, _config: Config, topic: str, _bytes_max: int) -> None:
        self.topic = topic
        Loader.put_ = []

    def put(self, key: bytes | None, value: bytes, partition: int) -> None:
        self.put_.append((key, value, partition))

    def flush(self) -> None:
        """Nothing is on its way."""


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Topic("id", PARTITIONS, {"max.message.bytes": "1000"}, frozenset(), 1)
    monkeypatch.setattr(app.watermark, "opened_input", lambda _config, _side: found)
    monkeypatch.setattr(app.watermark, "Loader", Loader)


def sent(config: Config, at: str, side: Side = Side.LEFT) -> Any:
    """What a worker reads of the one value that is in each partition."""
    said = send_watermark(config, side, at)
    topic = config.side(side).topic
    assert said == f'watermark {at} sent to the {PARTITIONS} partitions of "{topic}"'
    values = {value for _, value, _ in Loader.put_}
    assert [(key, partition) for key, _, partition in Loader.put_] == [
        (None, partition) for partition in range(PARTITIONS)
    ]
    (parts,) = make_codec(config, sure=True).decode_batch(side, list(values))
    return parts


def of(folder: Path, left: str = "", table: str = "") -> Config:
    return job(folder, MINIMAL.replace('topic = "l"\n', f'topic = "l"\n{left}') + table)


def test_it_is_a_watermark_of_that_time(tmp_path: Path) -> None:
    parts = sent(of(tmp_path), str(AT_MS), Side.RIGHT)
    assert (parts[4], parts[3]) == (Kind.WATERMARK, AT_MS)


@pytest.mark.parametrize(
    ("left", "at"),
    [
        ("", str(AT_MS)),
        ('time_unit = "s"\n', str(AT_MS // 1000)),
        ('time_unit = "rfc3339"\n', "2025-03-03T10:00:00Z"),
        ('fields = { kind = "op" }\nkinds = { c = "insert", w = "watermark" }\n', str(AT_MS)),
        ('fields = { id = "x", ts = "t", start = "t", end = "t", kind = "k" }\n', str(AT_MS)),
    ],
)
def test_times_and_words_are_the_sides_own(tmp_path: Path, left: str, at: str) -> None:
    parts = sent(of(tmp_path, left, JSON), at)
    assert (parts[4], parts[3]) == (Kind.WATERMARK, AT_MS)


@pytest.mark.parametrize(
    ("left", "at", "said"),
    [
        ('kinds = { c = "insert" }\nfields = { kind = "op" }\n', "1", "name the field with left."),
        ('fields = { id = "x" }\n', "1", "name the field with left.fields.kind"),
        ("", "soon", "no watermark of the left side can be made of 'soon': "),
        ("", "1.5", "no watermark of the left side can be made of '1.5': "),
        ('time_unit = "s"\n', str(AT_MS), 'which looks like "ms" but is read as "s"'),
    ],
)
def test_what_would_be_none_is_not_written(tmp_path: Path, left: str, at: str, said: str) -> None:
    config = of(tmp_path, left, JSON)
    Loader.put_ = []
    with pytest.raises(UsageError) as told:
        send_watermark(config, Side.LEFT, at)
    assert said in str(told.value)
    assert Loader.put_ == []


@pytest.mark.parametrize(
    ("at", "why"), [("9999999999999", "future_ts"), (str(2**70), "out_of_range")]
)
def test_what_a_worker_would_reject_is_not_sent(tmp_path: Path, at: str, why: str) -> None:
    config = job(tmp_path, MINIMAL + JSON)
    with pytest.raises(UsageError, match=f"would be rejected as {why}: "):
        send_watermark(config, Side.LEFT, at)
    assert not Loader.put_
