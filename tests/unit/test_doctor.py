"""What `doctor` concludes from what it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest

from app.doctor.broker import Asked, Cluster, broker_findings
from app.doctor.finding import Finding, Level, fail
from app.doctor.partitioner import HASHES, Placement, partitioner_findings, placement
from app.doctor.rights import Resource, creation_findings, right_findings
from app.doctor.sample import Sample, sample_findings
from app.doctor.times import Times, overlap_findings, time_findings
from app.doctor.topics import size_findings, topic_findings
from app.kafka.cluster import Topic
from app.kafka.scan import Read
from app.topics import plan
from app.validity import limits_of
from schemas.partition import fnv1a, lane_of
from schemas.records import Event, Fault, Kind, Reason, Side
from tests.unit.jobs import job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

NOW_MS: Final = 1_741_000_000_000
DAY_MS: Final = 86_400_000


def levels(findings: Iterable[Finding]) -> list[str]:
    return [str(finding.level) for finding in findings]


def the(findings: list[Finding]) -> Finding:
    (one,) = findings
    return one


def test_a_finding_is_one_line() -> None:
    assert fail("a\nb", "c").line == "fail a b: c"
    assert Finding(Level.OK, "a").line == "ok   a"


# The partitioner. The hashes are those that librdkafka's own tests expect of Sarama's.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"kafka", 0x0D33C4E1),
        (b"giberish123456789", 0x77A58295),
        (b"1234", 0x23BDD03),
        (b"234", 0x2DEA3CD2),
        (b"", 0x7EE3623B),
    ],
)
def test_fnv1a_is_that_of_sarama(key: bytes, value: int) -> None:
    assert fnv1a(key) == value


def test_murmur2_is_that_of_the_lanes() -> None:
    murmur2 = next(iter(HASHES.values()))
    for key in (b"a", b"press-1", b"\0\xff" * 9):
        assert murmur2(key) % 7 == lane_of(key, 7)


COUNT: Final = 6
KEYS: Final = [f"key-{number}".encode() for number in range(200)]


def placed(name: str, place: Callable[[bytes], int], keys: list[bytes] = KEYS) -> Placement:
    return placement(name, COUNT, [(key, place(key) % COUNT) for key in keys])


def java(name: str, keys: list[bytes] = KEYS) -> Placement:
    return placed(name, lambda key: lane_of(key, COUNT), keys)


def librdkafka(name: str, keys: list[bytes] = KEYS) -> Placement:
    return placed(name, crc32, keys)


def custom(name: str, keys: list[bytes] = KEYS) -> Placement:
    return placed(name, lambda key: sum(key) // 3, keys)


@pytest.mark.parametrize(
    ("left", "right", "level", "words"),
    [
        (java("left"), java("right"), "ok", "both sides were written with murmur2"),
        (librdkafka("left"), librdkafka("right"), "ok", "CRC32"),
        (placed("left", fnv1a), placed("right", fnv1a), "ok", "FNV-1a"),
        (java("left"), librdkafka("right"), "fail", "keys that both sides have are in different"),
        (
            java("left", KEYS[:100]),
            librdkafka("right", KEYS[100:]),
            "fail",
            "equal keys do not meet",
        ),
        (java("left", KEYS[:100]), java("right", KEYS[100:]), "ok", "both sides"),
        (custom("left"), custom("right"), "ok", "200 sampled keys are on both sides, all together"),
        (custom("left", KEYS[:100]), custom("right", KEYS[100:]), "warn", "not known here"),
        (java("left", KEYS[:2]), librdkafka("right", KEYS[2:4]), "warn", "too few keys"),
        (java("left", KEYS[:4]), java("right", KEYS[4:7]), "ok", "few keys: 4 of left and 3 of ri"),
        (java("left", KEYS[:4]), java("right", KEYS[4:7]), "ok", "murmur2 (Java's default), by"),
    ],
)
def test_partitioners_are_compared(
    left: Placement, right: Placement, level: str, words: str
) -> None:
    finding = the(partitioner_findings(left, right))
    assert (str(finding.level), words in finding.text) == (level, True), finding


def test_two_producers_of_one_side_that_differ_are_found() -> None:
    both = Placement(
        "left", COUNT,
        java("left", KEYS[:120]).places | librdkafka("left", KEYS[80:]).places,
    )  # fmt: skip
    finding = the(partitioner_findings(both, java("right")))
    assert finding.level is Level.FAIL
    assert "placed by two partitioners, CRC32" in finding.text


def test_keys_placed_at_random_are_found() -> None:
    places = [(key, (at + n) % COUNT) for at, key in enumerate(KEYS) for n in (0, 2)]
    scattered = placement("right", COUNT, places)
    finding = the(partitioner_findings(java("left"), scattered))
    assert finding.level is Level.FAIL
    assert "200 of 200 sampled keys of right are in several partitions" in finding.text


def test_a_few_keys_elsewhere_are_no_matter() -> None:
    stray = placement("left", COUNT, [(KEYS[0], 0), (KEYS[0], 1), (KEYS[0], 2)])
    left = Placement("left", COUNT, java("left").places | stray.places)
    assert levels(partitioner_findings(left, java("right"))) == ["ok"]


def test_no_keys_and_one_partition() -> None:
    empty = placement("left", COUNT, [(None, 3), (b"", 2)])
    assert levels(partitioner_findings(empty, java("right"))) == ["warn"]
    single = placement("left", 1, [(b"k", 0)])
    assert levels(partitioner_findings(single, single)) == ["ok"]


# Times.


def of_times(
    moments: list[int], unit: str = "ms", scale: int = 1, own: str = "ms"
) -> list[Finding]:
    return time_findings(Times("left", moments, scale), unit, own, NOW_MS, DAY_MS)


@pytest.mark.parametrize(
    ("moments", "level", "words"),
    [
        ([NOW_MS - DAY_MS, NOW_MS], "ok", "2025-03-02 11:06:40 to 2025-03-03 11:06:40"),
        ([NOW_MS // 1000], "fail", "look like s, such as 1741000000"),
        ([NOW_MS * 1000], "fail", "look like us"),
        ([NOW_MS + 2 * DAY_MS], "fail", "all sampled ones of left are in the future"),
        ([NOW_MS, NOW_MS + 2 * DAY_MS], "warn", "1 of 2 sampled ones of left are further"),
        ([5, 10], "warn", "the newest sampled one of left is 1970-01-01"),
    ],
)
def test_times_are_judged_against_now(moments: list[int], level: str, words: str) -> None:
    finding = the(of_times(moments))
    assert (str(finding.level), words in finding.text) == (level, True), finding


def test_a_side_of_another_unit_is_judged_by_its_own() -> None:
    assert levels(of_times([NOW_MS // 1000 * 1000], "ms", 1000, "s")) == ["ok"]
    finding = the(of_times([NOW_MS * 1000], "ms", 1000, "s"))
    assert "look like ms" in finding.text
    assert finding.mend == 'set left.time_unit = "ms"'
    assert the(of_times([NOW_MS * 1000])).mend.startswith('set unit = "us" for the job')


def test_plain_numbers_and_nothing_are_not_judged() -> None:
    assert time_findings(Times("left", [5], 1), "none", "none", NOW_MS, None) == []
    assert of_times([]) == []


def test_sides_that_are_far_apart_are_told() -> None:
    left, right = Times("left", [0, 10], 1), Times("right", [31, 40], 1)
    assert overlap_findings(left, right, "ms", 21) == []
    finding = the(overlap_findings(left, right, "ms", 20))
    assert finding.level is Level.WARN
    assert "of left end at" in finding.text
    assert overlap_findings(left, Times("right", [], 1), "ms", 0) == []


# Records.


def sampled(*events: Event | Fault) -> Sample:
    reads = [Read(0, at, b"k", b"v" * at) for at in range(len(events))]
    return Sample(Side.LEFT, "left", 1, reads, list(events))


def event(start: int, end: int, kind: Kind = Kind.INSERT) -> Event:
    return Event(0, b"k", "id", start, start, end, kind, b"", None)


LIMITS: Final = limits_of(10, 50, None)
JUNK: Final = Fault(Reason.UNDECODABLE, "begins with 00")


def test_records_that_would_be_refused_are_counted_by_reason() -> None:
    good = event(0, 9)
    assert levels(sample_findings(sampled(good, good), LIMITS)) == ["ok"]
    found = sample_findings(sampled(good, event(9, 0), event(0, 99), JUNK, JUNK), LIMITS)
    assert levels(found) == ["warn"] * 3
    assert found[0].text == (
        "records: 2 of 5 sampled ones of left are refused as undecodable, such as: begins with 00"
    )
    others = {finding.text.split(" as ")[1].split(",")[0] for finding in found[1:]}
    assert others == {"invalid_interval", "interval_too_long"}
    assert levels(sample_findings(sampled(JUNK), LIMITS)) == ["fail"]
    assert levels(sample_findings(sampled(), LIMITS)) == ["warn"]


def test_a_sample_leaves_out_what_says_nothing() -> None:
    one = sampled(event(5, 9), event(7, 9, Kind.RETRACT), event(6, 6, Kind.WATERMARK), JUNK)
    assert one.times(1).moments == [5, 6]
    assert one.largest == 1 + 3
    assert one.placement.places == {(b"k", 0)}


# Brokers and topics.

ASKED: Final = Asked(10_000, 6_000, classic=True)
BROKER: Final = {
    "transaction.partition.verification.enable": "true",
    "transaction.max.timeout.ms": "900000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.coordinator.rebalance.protocols": "classic,consumer",
}


@pytest.mark.parametrize(
    ("settings", "asked", "words"),
    [
        ({"transaction.partition.verification.enable": None}, ASKED, "older than 3.6"),
        ({"transaction.partition.verification.enable": "false"}, ASKED, "not verified"),
        ({"transaction.max.timeout.ms": "9999"}, ASKED, "the broker allows 9999"),
        ({"group.min.session.timeout.ms": "6001"}, ASKED, "the broker allows 6001 to 1800000"),
        ({"group.max.session.timeout.ms": "5999"}, ASKED, "the broker allows 6000 to 5999"),
        (
            {"group.coordinator.rebalance.protocols": "classic"},
            ASKED._replace(classic=False),
            "does not offer",
        ),
    ],
)
def test_what_a_broker_does_not_allow_is_told(
    settings: dict[str, str | None], asked: Asked, words: str
) -> None:
    changed = {name: value for name, value in (BROKER | settings).items() if value is not None}
    found = broker_findings(Cluster(1, changed), asked)
    assert sorted(levels(found)) == ["fail", "ok", "ok"]
    assert any(one.level is Level.FAIL and words in one.text for one in found), found


def test_a_broker_as_it_should_be_and_one_that_may_not_be_looked_at() -> None:
    assert levels(broker_findings(Cluster(1, BROKER), ASKED)) == ["ok"] * 3
    newer = broker_findings(Cluster(1, BROKER), ASKED._replace(classic=False))
    assert sorted(levels(newer)) == ["ok", "ok", "warn"]
    assert any("unable to load the group" in one.text for one in newer)
    assert levels(broker_findings(Cluster(1, None), ASKED)) == ["warn"]


def test_missing_rights_are_named_with_their_command() -> None:
    needed = frozenset({"Read", "DescribeConfigs"})
    assert levels(right_findings([Resource("topic", "t", needed, needed)])) == ["ok"]
    finding = the(right_findings([Resource("topic", "t", needed, frozenset({"Read"}))]))
    assert finding.text == "rights: DescribeConfigs on topic t is missing"
    assert "--operation DescribeConfigs --topic t" in finding.mend
    assert levels(right_findings([Resource("group", "g", needed, None)])) == ["warn"]
    missing = {"changelog topic": "c"}
    assert creation_findings(missing, frozenset({"Create"})) == creation_findings({}, None) == []
    assert levels(creation_findings(missing, frozenset({"Describe"}))) == ["warn"]


def topics(**changes: dict[str, str]) -> dict[str, Topic]:
    settings = {
        "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
        "max.message.bytes": "1048588", "min.insync.replicas": "2",
        "message.timestamp.before.max.ms": str(2**63 - 1),
    }  # fmt: skip
    large = {"max.message.bytes": str(1048588 + (1 << 20))}
    own = {"l": {}, "r": {}, "out": {"cleanup.policy": "compact"}, "job-changelog": large,
           "job-rejects": large}  # fmt: skip
    return {
        name: Topic(
            "", 4, {**settings, **extra, **changes.get(name.replace("-", "_"), {})}, None, 3
        )
        for name, extra in own.items()
    }


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"l": {"cleanup.policy": "compact"}}, "warn", 'left topic "l" is compacted'),
        ({"out": {"cleanup.policy": "compact,delete"}}, "warn", "old events are deleted"),
        ({"out": {"message.timestamp.before.max.ms": "1"}}, "warn", "refuses records older than 1"),
        ({"out": {"min.insync.replicas": "1"}}, "warn", "out has min.insync.replicas=1"),
        ({"out": {"min.insync.replicas": "4"}}, "fail", "nothing can be written to it"),
        ({"job_changelog": {"retention.ms": "1"}}, "fail", "must have retention.ms=-1"),
        ({"job_rejects": {"max.message.bytes": "1"}}, "warn", "would hold the inputs' largest"),
    ],
)
def test_topics_are_judged(
    tmp_path: Path, changes: dict[str, dict[str, str]], level: str, words: str
) -> None:
    config = job(tmp_path)
    found = topics(**changes)
    planned = plan(config, found, None, create_inputs=False)
    findings = topic_findings(config, found, planned, 3)
    assert [level] == list({str(f.level) for f in findings if words in f.text}), findings


def test_topics_as_they_should_be(tmp_path: Path) -> None:
    config = job(tmp_path)
    planned = plan(config, topics(), None, create_inputs=False)
    assert set(levels(topic_findings(config, topics(), planned, 3))) == {"ok"}
    single = {name: topic._replace(replicas=1) for name, topic in topics(
        out={"min.insync.replicas": "1"}, job_changelog={"min.insync.replicas": "1"},
        job_rejects={"min.insync.replicas": "1"},
    ).items()}  # fmt: skip
    for brokers in (1, 3):
        planned = plan(config, single, None, create_inputs=False)
        found = topic_findings(config, single, planned, brokers)
        assert levels(found).count("warn") == 2, found


def test_matches_larger_than_their_topic_are_foreseen(tmp_path: Path) -> None:
    config = job(tmp_path)
    fits = {Side.LEFT: 500_000, Side.RIGHT: 548_076}
    assert levels(size_findings(config, topics(), fits, None)) == ["ok"]
    assert levels(size_findings(config, topics(), fits | {Side.LEFT: 500_001}, None)) == ["warn"]
    assert levels(size_findings(config, topics(), fits, 1_000_000)) == ["warn"]
    assert size_findings(config, topics(), {Side.LEFT: 1}, None) == []
