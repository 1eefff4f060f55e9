"""What somebody does who has data of their own: rejects, doctor, replay and check, on a broker."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from app.config import load_config
from app.errors import Crash
from app.kafka.replays import Replays
from app.rejects import Choice, RejectsTopic
from tests.kafka.avro import Event, encode, match_id
from tests.kafka.commands import command, done, refused
from tests.kafka.reading import QUIET

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

LANES: Final = 2
MANY: Final = 500
KEYS: Final = 400
SMALL: Final = 20_000
SMALLER: Final = 5_000


def set_topic(kafka: Harness, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.cluster.admin.incremental_alter_configs([resource])[resource].result(30)


def rows(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(*arguments).splitlines()]


def test_nothing_is_too_large_for_a_small_topic(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topics(LANES)
    set_topic(kafka, job.output, "max.message.bytes", str(SMALL))
    kafka.create_topic(job.rejects, LANES, {"max.message.bytes": str(SMALL)})
    # The broker measures what it gets: what is alike would be small.
    config = kafka.write_config('[kafka.producer]\n"compression.type" = "none"\n')
    worker = kafka.start(config)
    # Together far more than the output takes in one batch.
    kafka.send(job.left, "k", encode(Event("l", 0, 0, 50, payload=b"x" * 100)), 0)
    for number in range(MANY):
        kafka.send(job.right, "k", encode(Event(f"r{number}", 10, 10, 20)), 0)
    # Each larger than the rejects topic takes, by its value, headers, key, or ids.
    own = {"trace": b"t" * SMALL}
    kafka.send(job.left, "v", b"v" * 2 * SMALL, 0)
    kafka.send(job.left, "h", b"junk", 0, own)
    kafka.send(job.left, b"n" * 2 * SMALL, b"junk", 0, own)
    long_id = "i" * SMALL
    kafka.send(job.left, "k", encode(Event(long_id, 1, 1, 20)), 0)
    kafka.settle()
    found = kafka.matches()
    assert len(found) == MANY
    log = kafka.read(job.rejects)
    assert len(log) == 3 + MANY
    undecodable = [one for one in log if one.headers["reason"] == b"undecodable"]
    value, headers, key = undecodable
    assert (value.key, value.value) == (b"v", b"")
    assert (headers.key, headers.value) == (b"h", b"")
    assert "trace" not in headers.headers
    assert (key.key, key.value, key.headers["topic"]) == (None, b"", job.left.encode())
    large = log[-1]
    assert large.headers["reason"] == b"too_large"
    assert (large.key, large.value) == (b"", b"")
    assert "right id r" in large.headers["detail"].decode()
    # Of a match whose id alone is too large no tombstone can be written.
    kafka.send(job.left, "k", encode(Event(long_id, 1, 1, 20, "RETRACT")), 0)
    kafka.settle()

    # A limit that is lowered under the worker: it asks anew when it starts again.
    set_topic(kafka, job.output, "max.message.bytes", str(SMALLER))
    kafka.send(job.left, "b", encode(Event("big", 20, 20, 30, payload=b"x" * SMALLER)), 1)
    kafka.send(job.right, "b", encode(Event("r", 20, 20, 30)), 1)
    kafka.flush()
    assert worker.wait(30) == 75, worker.tail()
    assert f"takes {SMALLER} bytes a record, and took {SMALL}" in worker.tail()
    kafka.start(config)
    kafka.send(job.right, "k", encode(Event("last", 20, 20, 30)), 0)
    kafka.settle()
    assert set(kafka.matches()) == set(found) | {match_id("l", "last")}
    (reject,) = [one for one in kafka.read(job.rejects) if one.partition == 1]
    assert reject.key == match_id("big", "r").encode()


INVERTED: Final = encode(Event("x", 20, 20, 19, payload=b"p"))
OWN: Final = {"trace": b"\0\xff"}


def test_rejects_are_listed_counted_and_replayed_once(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topics(LANES)
    config = str(kafka.write_config())
    assert f'rejects topic "{job.rejects}" does not exist' in refused("rejects", "-c", config)
    kafka.start(Path(config))
    kafka.send(job.left, b"\xffkey", INVERTED, 1, OWN)
    kafka.send(job.right, "k", b"junk", 0)
    kafka.send(job.right, "k", None, 1)
    large = b"x" * 600_000
    kafka.send(job.left, "big", encode(Event("l", 10, 10, 20, payload=large)), 0)
    kafka.send(job.right, "big", encode(Event("r", 10, 10, 20, payload=large)), 0)
    kafka.settle()
    listed = {row["reason"]: row for row in rejects(config)}
    assert set(listed) == {"invalid_interval", "undecodable", "null_value", "too_large"}
    row = listed["invalid_interval"]
    origin = (row["side"], row["topic"], row["partition"], row["offset"])
    assert origin == ("left", job.left, 1, 0)
    assert (row["key_hex"], row["replayed"]) == (b"\xffkey".hex(), False)
    assert row["value"] == {
        "id": "x", "ts": 20, "start": 20, "end": 19, "kind": "INSERT", "payload": "p",
    }  # fmt: skip
    assert {"name": "trace", "value_hex": "00ff"} in row["headers"]
    assert (listed["undecodable"]["value"], listed["null_value"]["value"]) == ("junk", None)
    assert listed["too_large"]["key"] == match_id("l", "r")
    check_choices(config, row["at"], set(listed))
    table = done("rejects", "-c", config, "--limit", "1")
    assert f"4 rejects in {job.rejects}, the newest 1 shown" in table
    check_replay(kafka, config, row["at"])
    check_two_replays_at_a_time(kafka, config)


def check_two_replays_at_a_time(kafka: Harness, config: str) -> None:
    """The one that begins later ends the other, and sees all that was replayed until then."""
    before = len(kafka.read(kafka.job.right))
    late = RejectsTopic(load_config(Path(config)))
    early = Replays(load_config(Path(config)), 1_000_000)
    again = ("rejects", "-c", config, "--replay", "--yes", "--again", "--reason", "undecodable")
    assert done(*again).endswith("1 reject replayed\n")
    found = list(late.chosen(Choice(reasons=frozenset({"undecodable"}))))
    late.close()
    assert all(chosen.replayed for chosen in found[:-1])
    with pytest.raises(Crash, match="0 rejects had been replayed"):
        early.write([chosen.reject for chosen in found])
    early.close()
    assert len(kafka.read(kafka.job.right)) == before + 1


def rejects(config: str, *options: str) -> list[dict[str, Any]]:
    return rows("rejects", "-c", config, "--format", "jsonl", *options)


def check_choices(config: str, inverted_at: str, every: set[str]) -> None:
    def chosen(*options: str) -> set[str]:
        return {row["reason"] for row in rejects(config, *options)}

    two = {"undecodable", "null_value"}
    assert chosen("--side", "right", "--key", "k", "--since", "1d") == two
    assert chosen("--key-hex", b"\xffkey".hex(), "--at", inverted_at) == {"invalid_interval"}
    counted = rows("rejects", "-c", config, "--count", "--format", "jsonl")
    assert {(one["reason"], one["rejects"]) for one in counted} == {(name, 1) for name in every}


def check_replay(kafka: Harness, config: str, inverted_at: str) -> None:
    job = kafka.job
    replay = ("rejects", "-c", config, "--replay")
    assert "say --yes" in refused(*replay, "--reason", "undecodable")
    said = done(*replay, "--yes")
    assert "2 left out: without a value" in said
    assert said.endswith("2 rejects replayed\n")
    kafka.settle(ends={(job.left, 1): 2, (job.right, 0): 3})
    again = kafka.read(job.left)[-1]
    assert (again.partition, again.key, again.value) == (1, b"\xffkey", INVERTED)
    assert again.headers == {
        "trace": OWN["trace"], "replayed-from": f"{job.rejects}/{inverted_at}".encode(),
    }  # fmt: skip
    # Rejected again, for what is wrong with it is not mended; and not replayed again by accident.
    rejected = rejects(config, "--reason", "invalid_interval")
    assert [one["replayed"] for one in rejected] == [True, False]
    assert [one["again"] for one in rejected] == [False, True]
    said = done(*replay, "--yes", "--reason", "invalid_interval")
    assert said == (
        "1 left out: rejected again after a replay (--again takes them)\n"
        "1 left out: replayed before\n0 rejects replayed\n"
    )
    assert len(kafka.read(job.left)) == 3
    said = done(*replay, "--yes", "--again", "--reason", "invalid_interval")
    assert said == "1 left out: replayed before\n1 reject replayed\n"
    assert len(kafka.read(job.left)) == 4


def test_a_side_that_was_written_with_another_partitioner_is_refused(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topics(LANES)
    # Many small batches, so that a worker sees many keys.
    config = str(kafka.write_config("[turn]\nmax_records = 20\n"))
    assert "nothing to look at yet" in done("doctor", "-c", config)
    worker = kafka.start(Path(config))
    kafka.await_running(worker)
    keys = [f"key-{number}" for number in range(KEYS)]
    other = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    for key in keys:
        kafka.send(job.left, key, encode(Event(f"l-{key}", 1, 1, 9)))
        other.produce(job.right, encode(Event(f"r-{key}", 1, 1, 9)), key)
    kafka.flush()
    assert other.flush(30) == 0
    ended = command("doctor", "-c", config)
    assert ended.code == 2
    assert "1 of these findings needs a person" in ended.err
    lines = ended.out.splitlines()
    (failed,) = [line for line in lines if line.startswith("fail")]
    assert "left was written with murmur2 (Java's default), right with CRC32" in failed
    assert '"partitioner": "murmur2_random"' in failed
    for said in (
        "ok   broker: 3.6 or newer",
        "ok   rights: all that is needed",
        f"ok   transactions: ids that begin with {job.name}- are allowed",
        f"ok   records: {KEYS} sampled ones of right are readable and valid",
        "ok   sizes:",
    ):
        assert any(line.startswith(said) for line in lines), (said, lines)
    worker.expect_end()
    assert worker.wait(30) == 2
    refusal = "left was written with murmur2 (Java's default), right with CRC32"
    assert f"spanjoin: partitioner: {refusal}" in worker.tail()
    again = kafka.start(Path(config))
    assert again.wait(30) == 2
    assert refusal in again.tail()
    kafka.write_config("[turn]\nmax_records = 20\n", join={"partitioners": "any"})
    worker = kafka.start(Path(config))
    kafka.settle(ends=ends(kafka))
    assert refusal in worker.log.read_text()
    said = done("check", "-c", config)
    assert "keys are in other partitions on the left than on the right" in said
    assert 0 < int(said.split(" matches expected")[0].rsplit("\n", 1)[-1]) < KEYS


def ends(kafka: Harness) -> dict[tuple[str, int], int]:
    """Where both inputs end, whoever wrote them."""
    return {
        (topic, lane): end
        for topic in (kafka.job.left, kafka.job.right)
        for lane, end in kafka.cluster.ends(topic).items()
    }


@pytest.mark.parametrize(
    ("table", "setting", "value"),
    [("consumer", "session.timeout.ms", 100), ("producer", "transaction.timeout.ms", 1_000_000)],
)
def test_a_time_out_that_the_broker_does_not_allow_ends_a_worker(
    kafka: Harness, monkeypatch: pytest.MonkeyPatch, table: str, setting: str, value: int
) -> None:
    kafka.create_topics()
    config = kafka.write_config()
    variable = f"SPANJOIN_KAFKA__{table.upper()}__{setting.replace('.', '_').upper()}"
    monkeypatch.setenv(variable, str(value))
    ended = command("doctor", "-c", str(config))
    assert ended.code == 2
    assert f"{setting} is {value}, and the broker allows" in ended.out
    worker = kafka.start(config)
    assert worker.wait(30) == 2, worker.tail()
    assert f"spanjoin: {setting} in [kafka.{table}] is" in worker.tail()


def random_rows(side: str, chance: random.Random) -> list[dict[str, Any]]:
    """Rows of a side, some of which are late, in conflict, taken back or invalid."""
    found = []
    for number in range(300):
        start = 2 * number - chance.choice((0, 0, 0, chance.randint(0, 90)))
        end = start + chance.randint(-1, 51)
        named = number - chance.choice((0, 0, 0, 1, 5))
        row_id, key = f"{side}{named}|%", "abcdef"[named % 6]
        kind = chance.choice(("INSERT",) * 5 + ("RETRACT",))
        found.append(
            {"key": key, "id": row_id, "ts": start, "start": start, "end": end, "kind": kind}
        )
    return found


def test_a_replay_and_a_check_agree_with_a_live_run(kafka: Harness) -> None:
    job = kafka.job
    kafka.create_topics(LANES)
    config = kafka.write_config()
    chance = random.Random(7)
    paths = []
    for side in ("left", "right"):
        path = kafka.directory / f"{side}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in random_rows(side, chance)))
        done("load", "-c", str(config), "--side", side, str(path))
        paths.append(str(path))
    ended = command("check", "-c", str(config))
    assert f'changelog topic "{job.changelog}" does not exist' in ended.err
    worker = kafka.start(config)
    kafka.settle(ends=ends(kafka))
    refused_rows = kafka.directory / "refused.jsonl"
    more = ("--partitions", str(LANES), "--rejects", str(refused_rows))
    ended = command("replay", "-c", str(config), *paths, *more)
    assert ended.code == 0
    replayed = {row["id"]: row for row in map(json.loads, ended.out.splitlines())}
    live = {row["id"]: row for row in rows("read", "-c", str(config), "--format", "jsonl")}
    assert replayed == live
    assert len(live) > 100
    in_topic = Counter(row["reason"] for row in rejects(str(config)))
    assert (
        Counter(json.loads(line)["reason"] for line in refused_rows.read_text().splitlines())
        == in_topic
    )
    assert {"late", "invalid_interval", "interval_too_long", "conflicting_duplicate"} <= set(
        in_topic
    )
    assert done("check", "-c", str(config)).endswith(
        f"{len(live)} matches expected, {len(live)} of them in {job.output}\n"
    )
    # What nobody has joined yet is left out.
    assert worker.terminate() == 0
    kafka.send(job.left, "a", encode(Event("new", 600, 600, 600)))
    kafka.flush()
    said = done("check", "-c", str(config))
    assert said.startswith("note: 1 records of left are not joined yet: they were left out\n")
    # Somebody writes into the output: one match goes, and one that never was comes.
    kafka.unchecked = "its output is spoiled, and check has said so"
    gone, changed, *_ = sorted(live)
    kafka.send(job.output, gone, None)
    kafka.send(job.output, "L:left1|R:nobody", b"x")
    kafka.send(job.output, changed, b"x")
    kafka.send(job.output, "somebody else's", b"x")
    kafka.flush()
    ended = command("check", "-c", str(config))
    assert ended.code == 1
    assert "1 missing, 1 extra, 1 twice, 1 wrong" in ended.err
    assert f"missing: {gone}" in ended.out.splitlines()
    assert "extra: L:left1|R:nobody" in ended.out.splitlines()
    assert f"note: 1 records of {job.output} have keys that no result has" in ended.out
