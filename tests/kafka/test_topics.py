"""`topics`: creates what is missing, and leaves what exists to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.commands import command, done, inputs, refused
from tests.kafka.workers import spanjoin

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

PARTITIONS: Final = 3


@pytest.fixture
def config(kafka: Harness) -> str:
    return str(kafka.write_config())


def test_topics_creates_all_five_once(kafka: Harness, config: str) -> None:
    job = kafka.job
    first = done("topics", "-c", config, "--partitions", str(PARTITIONS))
    assert f'left topic "{job.left}" created with 3 partitions, retention.ms=-1' in first
    assert "kept for ever" in first
    for topic in (job.left, job.right, job.output, job.changelog, job.rejects):
        assert len(kafka.cluster.partitions(topic)) == PARTITIONS
    for topic in (job.left, job.right):
        assert kafka.topic_config(topic)["retention.ms"] == "-1"
    assert kafka.topic_config(job.output)["cleanup.policy"] == "compact"
    changelog = kafka.topic_config(job.changelog)
    assert changelog["cleanup.policy"] == "delete"
    assert (changelog["retention.ms"], changelog["retention.bytes"]) == ("-1", "-1")
    again = done("topics", "-c", config, "--partitions", str(PARTITIONS))
    assert "created" not in again
    assert again == done("topics", "-c", config)


def test_topics_leaves_what_exists_to_a_person(kafka: Harness, config: str) -> None:
    job = kafka.job
    assert "--partitions N" in refused("topics", "-c", config)
    inputs(kafka, 2, 3)
    line = refused("topics", "-c", config)
    assert f'left topic "{job.left}" has 2 partitions' in line
    assert f'right topic "{job.right}" has 3 partitions' in line
    assert not kafka.cluster.partitions(job.output), "nothing is created before that is settled"


def test_topics_says_what_differs(kafka: Harness, config: str) -> None:
    job = kafka.job
    kafka.create_topic(job.output, 1, {"cleanup.policy": "delete"})
    kafka.create_topic(job.changelog, 3, {"retention.ms": "1000"})
    inputs(kafka, 2)
    line = refused("topics", "-c", config)
    assert f'changelog topic "{job.changelog}" has 3 partitions, but the inputs have 2' in line
    assert "not 5" in refused("topics", "-c", config, "--partitions", "5")


def test_topics_creates_the_rest_where_settings_differ(kafka: Harness, config: str) -> None:
    job = kafka.job
    kafka.create_topic(job.output, 1, {"cleanup.policy": "delete"})
    kafka.create_topic(job.changelog, 2, {"retention.ms": "1000"})
    inputs(kafka, 2)
    ended = command("topics", "-c", config)
    assert ended.code == 2
    assert f'rejects topic "{job.rejects}" created with 2 partitions' in ended.out
    assert f'output topic "{job.output}" has cleanup.policy=delete, but must have' in ended.err
    assert f'changelog topic "{job.changelog}" has retention.ms=1000, but must have' in ended.err
    assert ended.err.count("\n") == 1


def test_run_refuses_what_would_lose_state(kafka: Harness, config: str) -> None:
    job = kafka.job
    kafka.create_topic(job.output, 1, {"cleanup.policy": "delete"})
    kafka.create_topic(job.changelog, 2, {"retention.ms": "1000"})
    inputs(kafka, 2)
    # A process of its own: a worker that ends takes its process with it.
    ended = spanjoin("run", "-c", config)
    assert ended.returncode == 2
    assert f'changelog topic "{job.changelog}" has retention.ms=1000' in ended.stderr
    assert job.output not in ended.stderr, "that is worth a warning, but no reason to stop"
