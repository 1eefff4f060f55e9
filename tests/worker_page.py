"""A worker's server without a worker: a lane in memory that answers what the page asks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry

from app.access import ANYBODY, Access
from app.health import Health, Server, serve
from app.process import Running
from app.questions import Questions
from app.timeline import Pair, timeline
from schemas.avro_codec import AvroCodec
from schemas.fields import Fields
from schemas.partition import lane_of
from schemas.records import Event, JoinType, Kind, Record, Side
from state.checkpoint import Checkpoint, Layout
from tests.lane import Lane, event, settings_of, watermark

if TYPE_CHECKING:
    from concurrent.futures import Future

SCHEMA: Final = json.loads(resources.files("schemas").joinpath("event.avsc").read_text())
FIELDS: Final = Fields("id", "ts", "start", "end", "kind")
CODEC: Final = AvroCodec(([SCHEMA], [SCHEMA]), (FIELDS, FIELDS))
LATENESS, MAX_INTERVAL = 10, 50


def row(
    row_id: str, start: int, end: int, *, kind: Kind = Kind.INSERT, payload: bytes | None = None,
    key: bytes = b"k",
) -> Event:  # fmt: skip
    """A row as a producer writes it."""
    record = {
        "id": row_id, "ts": start, "start": start, "end": end, "kind": kind.name,
        "payload": payload,
    }  # fmt: skip
    value = CODEC.encode_event(Side.LEFT, record)
    return event(row_id, start, end, key=key, kind=kind, value=value)


@dataclass
class Worker:
    """One lane of several; `take` gives it records."""

    join_type: JoinType = JoinType.INNER
    lanes: int = 4
    number: int = lane_of(b"k", 4)
    unit: str = "none"
    access: Access = ANYBODY
    lane: Lane = field(init=False)
    others: list[dict[str, Any]] = field(default_factory=list)
    """Lanes of other workers."""
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.lane = Lane(settings_of(LATENESS, MAX_INTERVAL, join_type=self.join_type))
        health = Health(lambda: None, lambda: None, self.status, None, self.look, self.job)
        self.server = serve("127.0.0.1", 0, health, CollectorRegistry(), self.access)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.port}/"

    def take(self, *records: tuple[Side, Record]) -> None:
        """One turn."""
        self.lane.turn(records)

    def advance(self, ts: int) -> None:
        """Both sides say that time has come so far."""
        self.take((Side.LEFT, watermark(ts)), (Side.RIGHT, watermark(ts)))

    @property
    def running(self) -> Running:
        """The lane as a worker has it."""
        layout = Layout(
            self.unit, LATENESS, MAX_INTERVAL, self.lane.settings.span, "c", "l", "r",
            self.join_type,
        )  # fmt: skip
        checkpoint = Checkpoint(
            epoch=7, sequence=1, writer="w", owner="o", address="", released=False,
            left_position=12, right_position=13, watermarks=self.lane.watermarks,
            rows=len(self.lane.store), size=0, layout=layout,
        )  # fmt: skip
        return Running(self.number, checkpoint, self.lane.settings, self.lane.state, 0, 0)

    def look(self, key: bytes, lane: int | None, pair: Pair | None) -> Future[dict[str, Any]]:
        """As a worker's process does, but on the server's thread."""
        questions = Questions(self.lanes)
        tell = partial(timeline, pair=pair)
        answer = questions.ask(key, linearizable=False, lane=lane, tell=tell)
        questions.serve({self.number: self.running}, CODEC, _never, _never)
        return answer

    def status(self) -> dict[str, Any]:
        """What `/status` says."""
        wm, left, right = self.lane.watermarks
        totals = {"left": 40, "right": 44, "matches": 9, "retractions": 1, "rejects": 2}
        return {"name": "job", "worker": "job-host-1", "lanes": [
            {"lane": self.number, "phase": "running", "epoch": 7, "owner": "job-host-1",
             "watermark": wm, "rows": len(self.lane.store), "bytes": 0,
             "left": {"position": 12, "lag": 0, "watermark": left},
             "right": {"position": 13, "lag": 3, "watermark": right},
             "changelog": {"start": 0, "end": 9}, "disk_bytes": 1, "totals": totals},
        ]}  # fmt: skip

    def job(self) -> dict[str, Any]:
        """What `/job` says."""
        return {
            "name": "job", "worker": "job-host-1", "left": "lefts", "right": "rights",
            "output": "matches", "join_type": str(self.join_type), "unit": self.unit,
            "lateness": LATENESS, "max_interval": MAX_INTERVAL, "now": None,
            "lanes": self.others, "trouble": None,
        }  # fmt: skip


def other_lane(number: int, **changes: Any) -> dict[str, Any]:
    """A lane of another worker."""
    side = {"position": 5, "lag": 0, "watermark": 20}
    return {
        "lane": number, "phase": "running", "epoch": 2, "owner": "job-host-2", "watermark": 20,
        "rows": 4, "bytes": 400, "left": side, "right": side, "address": "127.0.0.1:1",
        "changelog": {"start": 0, "end": 9}, **changes,
    }  # fmt: skip


def _never(_: object) -> None:
    raise AssertionError("nothing is asked for")
