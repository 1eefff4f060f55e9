"""A job over a real Schema Registry: writers that evolve, a registry that is away, a new worker."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.kafka.avro import murmur2
from tests.kafka.commands import command, done, refused
from tests.kafka.harness import Harness
from tests.kafka.registry import NoRegistry, RegistryProcess
from tests.kafka.workers import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.broker import Broker
    from tests.kafka.reading import Change
    from tests.kafka.workers import Worker

pytestmark = pytest.mark.timeout(300)  # The first of them fetches and starts the registry.
LANES: Final = 2
FORMAT: Final = """\
unit = "ms"
---
[schema]
format = "registry"
registry = {{ url = "{url}", timeout = 0.5 }}
"""
LEFT: Final = 'fields = { id = "no", ts = "since", start = "since", end = "until" }\n'
MILLIS: Final = {"type": "long", "logicalType": "timestamp-millis"}
MICROS: Final = {"type": "long", "logicalType": "timestamp-micros"}
PLACE: Final = {
    "type": "record", "name": "Place", "namespace": "my",
    "fields": [{"name": "id", "type": "string"}, {"name": "floor", "type": "int"}],
}  # fmt: skip
T: Final = 1_740_981_600_000


def shift(*more: Any, time: Any = MILLIS) -> dict[str, Any]:
    """A left schema; what is new comes first, so that every byte moves."""
    fields = [
        *({"name": name, "type": "string", "default": "?"} for name in more),
        {"name": "no", "type": "long"},
        {"name": "since", "type": time},
        {"name": "until", "type": time},
    ]
    return {"type": "record", "name": "Shift", "namespace": "my", "fields": fields}


def fault(place: Any) -> dict[str, Any]:
    kinds = {"id": "string", "ts": "long", "start": "long", "end": "long", "place": place}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return {"type": "record", "name": "Fault", "namespace": "my", "fields": fields}


class Job:
    """One job for all tests of the file; each has keys and ids of its own."""

    def __init__(
        self, kafka: Harness, registry: RegistryProcess, lines: str = "", join: str = "inner"
    ) -> None:
        self.kafka, self.registry = kafka, registry
        text = FORMAT.format(url=registry.url) + lines
        bounds = {"allowed_lateness": "1h", "max_interval": "1h", "type": join}
        self.config: Path = kafka.write_config(text, join=bounds)
        topic = f'topic = "{kafka.job.left}"\n'
        self.config.write_text(self.config.read_text().replace(topic, topic + LEFT))
        kafka.create_topics(LANES)
        self.left = {more: self.register_left(*more) for more in ((), ("team",))}
        self.right = registry.register(f"{kafka.job.right}-value", fault(PLACE))
        self.worker: Worker | None = None

    def register_left(self, *more: str, time: Any = MILLIS) -> int:
        return self.registry.register(f"{self.kafka.job.left}-value", shift(*more, time=time))

    def start(self) -> Worker:
        self.worker = self.kafka.start(self.config)
        return self.worker

    def key(self, lane: int) -> str:
        """A key that nobody had before, in this lane."""
        self._keys = getattr(self, "_keys", 0) + 1
        names = (f"key-{self._keys}-{number}" for number in range(100))
        return next(name for name in names if murmur2(name.encode()) % LANES == lane)

    def send_left(
        self, key: str, schema_id: int, number: int, *, at: int = T, **more: str
    ) -> bytes:
        record = {"no": number, "since": at, "until": at + 1000, **more}
        value = self.registry.encoded(schema_id, record)
        self.kafka.send(self.kafka.job.left, key, value)
        return value

    def send_right(
        self, key: str, row_id: str, schema_id: int | None = None, *, at: int = T
    ) -> bytes:
        place = {"id": "hall", "floor": 2}
        record = {"id": row_id, "ts": at, "start": at, "end": at + 500, "place": place}
        value = self.registry.encoded(schema_id or self.right, record, fault(PLACE))
        self.kafka.send(self.kafka.job.right, key, value)
        return value

    def await_live(self, *ids: str) -> dict[str, Any]:
        """Wait for these matches, among others; what a consumer reads of them."""
        self.kafka.flush()
        found: dict[str, bytes] = {}

        def there() -> bool:
            found.update(self.kafka.matches())
            return set(ids) <= found.keys()

        self.kafka.await_(there, 60, lambda: f"{sorted(found)}, not {ids}")
        return {one: self.registry.decoded(found[one]) for one in ids}

    def await_unready(self) -> None:
        worker = self.worker
        assert worker is not None
        told = "the Schema Registry at"
        eventually(
            lambda: worker.get("/readyz")[0] == 503 and told in worker.get("/readyz")[1],
            30,
            lambda: str(worker.get("/readyz")),
        )
        assert worker.get("/livez")[0] == 200
        eventually(
            lambda: "spanjoin_schema_registry_away 1.0" in worker.get("/metrics")[1],
            10,
            worker.tail,
        )
        assert sorted(worker.running()) == [0, 1]


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryProcess]:
    try:
        process = RegistryProcess()
    except NoRegistry as why:
        pytest.skip(str(why))
    yield process
    process.resume()
    process.stop()


@pytest.fixture(scope="module")
def job(
    broker: Broker, registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Job]:
    directory = tmp_path_factory.mktemp("registry")
    harness = Harness(broker.bootstrap_servers, directory, quick_session=broker.owned)
    try:
        made = Job(harness, registry)
        harness.await_running(made.start())
        yield made
    finally:
        harness.close()


def rejected(changes: list[Change]) -> dict[bytes | None, str]:
    return {
        change.value: change.headers["detail"].decode()
        for change in changes
        if change.headers["reason"] == b"undecodable"
    }


def test_writers_evolve_and_each_pair_has_its_match_schema(job: Job) -> None:
    key = job.key(0)
    micros = job.register_left(time=MICROS)
    place = job.registry.register_referred("my.Place", PLACE)
    referring = job.registry.register(
        f"{job.kafka.job.right}-value", fault("my.Place"), {"my.Place": place}
    )
    job.send_left(key, job.left[()], 1)
    job.send_left(key, job.left["team",], 2, team="blue")
    wrong = {
        b"\0\0\0\x27\x0f....": "schema 9999, which the Schema Registry does not have",
        b"\0\xff\0\0\0....": "which is no id of a Schema Registry",
        b"\xc3\x01........": "not in a Schema Registry's wire format",
        job.send_left(key, micros, 3): "the unit of field 'since' is \"us\", finer than",
    }
    for value in list(wrong)[:3]:
        job.kafka.send(job.kafka.job.left, key, value)
    job.send_right(key, "f1")
    job.send_right(key, "f2", referring)
    found = job.await_live("L:1|R:f1", "L:2|R:f1", "L:1|R:f2", "L:2|R:f2")
    assert found["L:2|R:f2"] == {
        "start": T,
        "end": T + 500,
        "left": {"no": 2, "since": T, "until": T + 1000, "team": "blue"} | found_times(found),
        "right": {"id": "f2", "ts": T, "start": T, "end": T + 500,
                  "place": {"id": "hall", "floor": 2}},
    }  # fmt: skip
    assert "team" not in found["L:1|R:f1"]["left"]
    told = rejected(job.kafka.await_rejects(len(wrong)))
    assert told.keys() == wrong.keys()
    for value, detail in wrong.items():
        assert detail in told[value]


def found_times(found: dict[str, Any]) -> dict[str, Any]:
    """The times as fastavro gives those of a logical type."""
    left = found["L:2|R:f2"]["left"]
    assert left["since"].timestamp() * 1000 == T
    return {"since": left["since"], "until": left["until"]}


def test_a_registry_that_is_away_delays_records_and_rejects_none(job: Job) -> None:
    waiting, going_on = job.key(0), job.key(1)
    newer = job.register_left("team", "boss")
    before = len(job.kafka.read(job.kafka.job.rejects))
    value = job.send_left(waiting, newer, 11, team="red", boss="Ann")
    job.registry.pause()
    try:
        job.send_right(waiting, "f11")
        job.kafka.flush()
        job.await_unready()
        job.send_left(going_on, job.left[()], 12)
        job.send_right(going_on, "f12")
        job.kafka.flush()
        eventually(lambda: "L:12|R:f12" in job.kafka.matches(), 30, lambda: "the other lane waits")
        assert "L:11|R:f11" not in job.kafka.matches()
    finally:
        job.registry.resume()
    found = job.await_live("L:11|R:f11")
    assert found["L:11|R:f11"]["left"]["boss"] == "Ann"
    assert len(job.kafka.read(job.kafka.job.rejects)) == before
    assert job.kafka.matches()["L:11|R:f11"].count(value[5:]) == 1
    job.kafka.await_running(*filter(None, [job.worker]))


def test_a_new_worker_knows_the_schemas_of_the_rows_it_finds(job: Job) -> None:
    key = job.key(0)
    newest = job.register_left("team", "boss", "room")
    job.send_left(key, job.left[()], 21)
    job.send_left(key, job.left["team",], 22, team="blue")
    job.kafka.settle()
    job.send_left(key, newest, 23)
    job.registry.pause()
    try:
        job.kafka.flush()
        job.await_unready()
        assert job.worker is not None
        began = time.monotonic()
        assert job.worker.terminate() == 0
        assert time.monotonic() - began < 10
        job.send_right(key, "f21")
        job.kafka.flush()
        job.start()
        job.await_unready()
    finally:
        job.registry.resume()
    found = job.await_live("L:21|R:f21", "L:22|R:f21", "L:23|R:f21")
    assert [one["left"].get("team") for one in found.values()] == [None, "blue", "?"]
    job.kafka.await_running(*filter(None, [job.worker]))


def test_every_command_knows_the_registry(job: Job) -> None:
    config, key = str(job.config), job.key(1)
    data = job.kafka.directory / "more.jsonl"
    data.write_text(json.dumps({"key": key, "no": 31, "since": T, "until": T, "team": "x"}) + "\n")
    done("load", "-c", config, "--side", "left", str(data))
    job.send_right(key, "f31")
    # The newest schema of the subject is what it was loaded with.
    newest = job.registry.client.get_latest_version(f"{job.kafka.job.left}-value")
    found = job.await_live("L:31|R:f31")["L:31|R:f31"]["left"]
    assert (found["team"], found["since"].timestamp() * 1000) == ("x", T)
    assert json.loads(done("schema", "-c", config, "--of", "left")) == json.loads(
        newest.schema.schema_str or ""
    )
    assert json.loads(done("schema", "-c", config))["name"] == "spanjoin.Match"
    lines = done("read", "-c", config, "--format", "jsonl").splitlines()
    shown = {line["id"]: line for line in map(json.loads, lines)}
    assert shown["L:31|R:f31"]["left"]["since"] == T
    assert shown.keys() == job.kafka.matches().keys()
    assert "left_team" in done("read", "-c", config, "--format", "csv").splitlines()[0]
    job.kafka.settle()
    count = len(job.kafka.matches())
    assert done("check", "-c", config).startswith(f"{count} matches expected, {count} of them in")
    assert "written with schema 9999" in done("rejects", "-c", config, "--format", "jsonl")
    assert "takes the match schema" in done("doctor", "-c", config)
    answer = json.loads(done("query", "-c", config, "--json", key))
    assert [row["record"]["team"] for row in answer["rows"]["left"]] == ["x"]


def test_load_writes_nothing_in_a_schema_that_the_job_cannot_read(
    kafka: Harness, registry: RegistryProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANJOIN_JOIN__MAX_FUTURE", "1d")
    job = Job(kafka, registry)
    data = kafka.directory / "one.jsonl"
    data.write_text(json.dumps({"key": "k", "no": 1, "since": T * 1000, "until": T * 1000}) + "\n")
    job.register_left(time=MICROS)
    line = refused("load", "-c", str(job.config), "--side", "left", str(data))
    assert line.startswith(f"the newest schema of subject {kafka.job.left}-value does not fit")
    assert 'finer than unit = "ms"' in line
    # The file is still in microseconds, and now its schema is not.
    job.register_left("note")
    line = refused("load", "-c", str(job.config), "--side", "left", str(data))
    assert line.startswith(f'{data}:1: has the time {T * 1000}, which looks like "us"')
    assert line.endswith("; 0 rows before it were loaded")
    assert kafka.read(kafka.job.left) == []


def test_a_match_schema_that_the_subject_refuses_stops_the_worker(
    kafka: Harness, registry: RegistryProcess
) -> None:
    subject = f"{kafka.job.name}-own"
    registry.register(subject, {**PLACE, "name": "Match", "namespace": "spanjoin"})
    registry.client.set_compatibility(subject, "FULL")
    job = Job(kafka, registry, f'subject = "{subject}"\n')
    job.send_left("k", job.left[()], 1)
    job.send_right("k", "f1")
    kafka.flush()
    worker = job.start()
    assert worker.wait(60) == 2
    line = worker.tail().splitlines()[-1]
    assert line.startswith(f"spanjoin: the Schema Registry refuses a schema for subject {subject}")
    assert "set the subject's compatibility to NONE" in line


def test_an_outer_join_gets_more_lanes(kafka: Harness, registry: RegistryProcess) -> None:
    """Rows alone, with writers that evolve and one row taken back; then all of it in new lanes."""
    job = Job(kafka, registry, join="full")
    config = str(job.config)
    worker = job.start()
    kafka.await_running(worker)
    pair, left, right, taken_back = (job.key(lane) for lane in (0, 1, 0, 1))
    clocks = [job.key(lane) for lane in range(LANES)]
    job.send_left(pair, job.left[()], 1)
    job.send_right(pair, "f1")
    job.send_left(left, job.left["team",], 2, team="blue")
    job.send_right(right, "f3")
    job.send_left(taken_back, job.left[()], 4)
    kinds = fault(PLACE)
    kinds["fields"].append({"name": "kind", "type": "string", "default": "INSERT"})
    with_kind = registry.register(f"{kafka.job.right}-value", kinds)
    row = {"id": "f4", "ts": T, "start": T, "end": T, "place": {"id": "hall", "floor": 2}}
    for kind in ("INSERT", "RETRACT"):
        value = registry.encoded(with_kind, {**row, "kind": kind}, kinds)
        kafka.send(kafka.job.right, taken_back, value)
        kafka.settle()
    # All of these are due.
    later = T + 3 * 3_600_000
    for number, clock in enumerate(clocks):
        job.send_left(clock, job.left["team",], 90 + number, at=later, team="?")
        job.send_right(clock, f"f9{number}", at=later)
    found = job.await_live("L:2", "R:f3", "L:4")
    kafka.settle()
    assert set(kafka.matches()) == {"L:1|R:f1", *found, "L:90|R:f90", "L:91|R:f91"}
    assert (found["L:2"]["left"]["team"], found["L:2"]["right"]) == ("blue", None)
    assert (found["R:f3"]["left"], found["R:f3"]["right"]["place"]["floor"]) == (None, 2)
    assert "team" not in found["L:4"]["left"]
    assert done("check", "-c", config).startswith(
        "6 matches and unmatched rows expected, 6 of them in"
    )

    kafka.unchecked = "after a reshard a batch over the inputs finds keys in two lanes"
    assert worker.terminate() == 0
    wanted = ("--partitions", str(LANES + 1), "--partitioner", "murmur2")
    ended = command("reshard", "-c", config, *wanted)
    assert ended.code == 0, ended.err
    assert f"moved from {LANES} to {LANES + 1} lanes; counts and digests agree" in ended.out
    kafka.renew_producer()
    kafka.await_running(job.start())
    for number, clock in enumerate(clocks):
        job.send_right(clock, f"f10{number}", at=later)
    found = job.await_live("L:90|R:f100", "L:91|R:f101")
    assert found["L:91|R:f101"]["left"]["team"] == "?"
