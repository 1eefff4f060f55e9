from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.errors import UsageError
from app.kafka.check import check_properties
from app.properties import REFUSED
from tests.unit.jobs import MINIMAL, job

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("kafka", "kafka.consumer", "kafka.producer")
# Written out on purpose: taking a name off the list must fail here.
NAMES = (
    "group.id", "group.instance.id", "group.protocol.type", "enable.auto.commit",
    "auto.commit.enable", "auto.commit.interval.ms", "enable.auto.offset.store",
    "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms",
    "auto.offset.reset", "isolation.level", "enable.partition.eof", "transactional.id",
    "enable.idempotence", "enable.gapless.guarantee", "acks", "request.required.acks",
    "partitioner", "partition.assignment.strategy", "allow.auto.create.topics",
)  # fmt: skip


def kafka(table: str, line: str) -> str:
    if table == "kafka":
        return MINIMAL.replace("[kafka]", f"[kafka]\n{line}")
    return f"{MINIMAL}[{table}]\n{line}\n"


def test_the_list_is_complete() -> None:
    assert sorted(NAMES) == sorted(REFUSED)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quoted", [True, False])
def test_refused_properties(tmp_path: Path, table: str, name: str, quoted: bool) -> None:
    key = f'"{name}"' if quoted else name
    with pytest.raises(UsageError) as caught:
        job(tmp_path, kafka(table, f'{key} = "1"'))
    assert f"{table}.{name} cannot be set: {REFUSED[name]}" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", NAMES)
def test_refused_properties_in_the_environment(tmp_path: Path, table: str, name: str) -> None:
    variable = f"SPANJOIN_{table.replace('.', '__')}__{name.replace('.', '_')}".upper()
    with pytest.raises(UsageError, match="cannot be set"):
        job(tmp_path, environ={variable: "1"})


@pytest.mark.parametrize("table", TABLES)
def test_only_the_assignor_that_moves_single_lanes(tmp_path: Path, table: str) -> None:
    job(tmp_path, kafka(table, '"group.remote.assignor" = "uniform"'))
    with pytest.raises(
        UsageError, match=f'{table}.group.remote.assignor .* anything but "uniform"'
    ):
        job(tmp_path, kafka(table, '"group.remote.assignor" = "range"'))


@pytest.mark.parametrize("table", TABLES)
def test_topic_tables_are_no_way_round(tmp_path: Path, table: str) -> None:
    for line in ('"default.topic.config" = { acks = 1 }', '"default.topic.config".acks = 1'):
        with pytest.raises(UsageError, match=r"default\.topic\.config.* cannot be set"):
            job(tmp_path, kafka(table, line))


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("kafka", '"client.id" = "me"'),
        ("kafka", '"security.protocol" = "plaintext"'),
        ("kafka", '"socket.keepalive.enable" = true'),
        ("kafka.consumer", '"session.timeout.ms" = 10000'),
        ("kafka.consumer", '"max.poll.interval.ms" = 10000'),
        ("kafka.consumer", '"group.protocol" = "consumer"'),
        ("kafka.producer", '"compression.type" = "zstd"'),
        ("kafka.producer", '"transaction.timeout.ms" = 20000'),
        ("kafka.producer", 'compression.codec = "zstd"'),
    ],
)
def test_everything_else_passes(tmp_path: Path, table: str, line: str) -> None:
    check_properties(job(tmp_path, kafka(table, line)))


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("kafka", '"no.such" = 1', '[kafka] No such configuration property: "no.such"'),
        ("kafka.consumer", '"no.such" = 1', "[kafka.consumer] No such configuration property"),
        ("kafka.producer", '"no.such" = 1', "[kafka.producer] No such configuration property"),
        ("kafka.producer", '"linger.ms" = "x"', "[kafka.producer] Invalid value"),
        ("kafka", '"sasl.mechanism" = "X"\n"security.protocol" = "sasl_ssl"', "Unsupported SASL"),
        ("kafka", '"stats_cb" = "x"', "[kafka] "),
        (
            "kafka.consumer",
            '"max.poll.interval.ms" = 1000',
            "[kafka.consumer] `max.poll.interval.ms`must be >= `session.timeout.ms`",
        ),
        (
            "kafka.producer",
            '"max.in.flight" = 10',
            "[kafka.producer] `max.in.flight` must be set <= 5",
        ),
    ],
)
def test_the_client_judges_the_rest(tmp_path: Path, table: str, line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_properties(job(tmp_path, kafka(table, line)))
    assert message in str(caught.value)
