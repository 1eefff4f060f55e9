"""A job under TLS, a client certificate, a password and exactly the ACLs of the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from app.config import load_config
from app.errors import SpanjoinError
from app.topics import prepare_topics
from tests.kafka.avro import Event, encode
from tests.kafka.commands import command, done, refused
from tests.kafka.harness import Harness, Job
from tests.kafka.secured import PASSWORD, Right, Secured, Unavailable
from tests.kafka.workers import eventually, spanjoin

if TYPE_CHECKING:
    from collections.abc import Iterator

README: Final = Path(__file__).resolve().parents[2] / "README.md"
TO_LOOK_AT: Final = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
TO_READ: Final = (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
RESOURCES: Final = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}


def documented(job: Job) -> dict[Right, str]:
    """The README's table of ACLs for a job; what each is needed for."""
    names = {
        "left.topic": job.left,
        "right.topic": job.right,
        "output.topic": job.output,
        "<name>": job.name,
        "<name>-": f"{job.name}-",
        "<name>-changelog": job.changelog,
        "<name>-rejects": job.rejects,
    }
    text = README.read_text(encoding="utf-8")
    rows = text[text.index("| resource | name | operations |") :].split("\n\n")[0].splitlines()[2:]
    rights: dict[Right, str] = {}
    for row in rows:
        kind, named, operations, purpose = (cell.strip() for cell in row.strip("|").split("|"))
        pattern = ResourcePatternType.LITERAL
        if "(prefix)" in named:
            pattern = ResourcePatternType.PREFIXED
        for name in re.findall(r"`([^`]+)`", named):
            for operation in operations.split(", "):
                known = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()]
                rights[RESOURCES[kind], names[name], pattern, known] = purpose
    return rights


OTHERS: Final = {ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    try:
        broker = Secured(tmp_path_factory.mktemp("secured"))
    except Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.close()


def lacking(config: Path) -> str:
    """What a worker says that is not allowed something on a topic; nothing if all is well."""
    try:
        prepare_topics(load_config(config))
    except SpanjoinError as refused:
        return refused.line
    return ""


def test_exactly_the_documented_rights(
    secured: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kafka = Harness(secured.open, tmp_path)
    try:
        _check(kafka, secured, monkeypatch)
    finally:
        kafka.close()
    assert "|FATAL|" not in capfd.readouterr().err, "the client has told people by itself"


def _check(kafka: Harness, secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    job = kafka.job
    for topic in (job.left, job.right):
        kafka.create_topic(topic, 1)
    config = kafka.write_config()
    for name, value in secured.environ().items():
        monkeypatch.setenv(name, value)
    rights = documented(job)
    to_run = [right for right, purpose in rights.items() if "`run`" in purpose]
    secured.grant(*to_run)

    worker = kafka.start(config)
    kafka.await_running(worker)
    kafka.send(job.left, b"k", encode(Event("l1", 20, 10, 30)))
    kafka.send(job.right, b"k", encode(Event("r1", 20, 20, 40)))
    kafka.send(job.right, b"k", b"junk")
    kafka.settle()
    assert set(kafka.matches()) == {"L:l1|R:r1"}
    assert len(kafka.read(job.rejects)) == 1
    shown = [worker.get(path)[1] for path in ("/status", "/metrics", "/readyz")]
    assert worker.terminate() == 0
    assert PASSWORD not in "".join([*shown, worker.log.read_text()])

    said = done("doctor", "-c", str(config))
    assert "ok   rights: all that is needed on topics and group is allowed" in said
    assert "warn broker: its settings may not be looked at" in said
    for right in to_run:
        _named_when_missing(right, secured, config, rights[right])

    _check_commands(kafka, secured, config, set(rights) - set(to_run), monkeypatch)


def _told_by_doctor(kind: ResourceType, name: str, word: str, config: str) -> None:
    said = f"{word} on {kind.name.lower()} {name} is missing"
    if kind is ResourceType.TRANSACTIONAL_ID:
        said = f"{word} on transactional ids that begin with {name}"
    eventually(
        lambda: said in command("doctor", "-c", config).out, 10,
        lambda: command("doctor", "-c", config).out,
    )  # fmt: skip


def _named_when_missing(right: Right, secured: Secured, config: Path, purpose: str) -> None:
    """Without it a worker ends at once, and says which one it needs."""
    kind, name, _, operation = right
    if "first" in purpose:
        return  # The topics are there by now.
    secured.revoke(right)
    word = operation.name.title().replace("_", "")
    if operation in {AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS} or kind in OTHERS:
        _told_by_doctor(kind, name, word, str(config))
    if kind is ResourceType.TOPIC:
        eventually(lambda: lacking(config) != "", 10, lambda: f"no word of {right}")
        line = lacking(config)
        assert name in line
    else:
        ended = spanjoin("run", "-c", str(config))
        assert ended.returncode == 1, ended.stderr
        line = ended.stderr
    assert word in line, line
    secured.grant(right)
    eventually(lambda: lacking(config) == "", 10, lambda: lacking(config))


def _check_commands(
    kafka: Harness,
    secured: Secured,
    config: Path,
    further: set[Right],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rights that commands need beyond those of a worker, and those that suffice for some."""
    job = kafka.job
    reset = ("reset", "-c", str(config))
    eventually(
        lambda: "alive" not in command(*reset).err,
        10,
        lambda: "the last of these workers is still a member",
    )
    assert refused(*reset) == (
        f'output topic "{job.output}" may not be used: grant Read; '
        f'rejects topic "{job.rejects}" may not be used: grant Delete; '
        f'group "{job.name}" may not be used: grant Delete'
    )
    secured.grant(*further)
    reshard = ("reshard", "-c", str(config), "--partitions", "2", "--partitioner", "murmur2")
    eventually(lambda: "Delete" not in command(*reshard).err, 10, lambda: refused(*reshard))
    assert refused(*reshard).count("may not be used: grant Alter") == len(
        (job.left, job.right, job.changelog, job.rejects)
    )
    assert len(kafka.cluster.partitions(job.left)) == 1
    monkeypatch.setenv("SPANJOIN_STATE__DIR", str(kafka.directory / "state-1"))
    eventually(
        lambda: command("read", "-c", str(config), "--format", "jsonl").out.count("\n") == 1,
        10,
        lambda: str(command("read", "-c", str(config))),
    )
    assert "1 live match," in done(*reset)
    _check_looking(kafka, secured, config)
    _check_tokens(kafka, secured, config, monkeypatch)
    monkeypatch.setenv("SPANJOIN_KAFKA__SASL_PASSWORD", "another-password")
    monkeypatch.delenv("SPANJOIN_KAFKA__SASL_PASSWORD_FROM_FILE")
    ended = command("status", "-c", str(config))
    assert ended.code == 1
    assert "uthentication failed" in ended.err
    assert "another-password" not in ended.err


def _check_looking(kafka: Harness, secured: Secured, config: Path) -> None:
    """Who only looks needs less, and is told what more is needed to write."""
    job = kafka.job
    for right in documented(job):
        secured.revoke(right)
    secured.grant(
        (ResourceType.GROUP, job.name, ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
        *(
            (ResourceType.TOPIC, name, ResourcePatternType.LITERAL, operation)
            for name, operations in (
                (job.left, TO_LOOK_AT),
                (job.right, TO_LOOK_AT),
                (job.output, TO_READ),
                (job.changelog, TO_READ),
                (job.rejects, TO_READ),
            )
            for operation in operations
        ),
    )
    eventually(lambda: command("read", "-c", str(config)).code == 0, 10, lambda: "no read")
    assert '"lane": 0' in done("status", "-c", str(config), "--json")
    assert "0 rejects" in done("rejects", "-c", str(config), "--count")
    said = refused("rejects", "-c", str(config), "--replay", "--yes")
    assert said.startswith(f'rejects topic "{job.rejects}" may not be written to: grant Write')
    data = kafka.directory / "data.jsonl"
    data.write_text("")
    said = refused("load", "-c", str(config), "--side", "left", str(data))
    assert said == f'left topic "{job.left}" may not be written to: grant Write'
    assert command("check", "-c", str(config)).err.startswith(
        f'spanjoin: Kafka refuses Read on topic "{job.left}": '
    )
    secured.grant(
        *(
            (ResourceType.TOPIC, name, ResourcePatternType.LITERAL, AclOperation.READ)
            for name in (job.left, job.right)
        )
    )
    eventually(lambda: command("check", "-c", str(config)).code == 0, 10, lambda: "no check")
    assert kafka.matches() == {}


def _check_tokens(
    kafka: Harness, secured: Secured, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of client gets its tokens by itself, also those that nobody polls."""
    secured.grant(*documented(kafka.job))
    with monkeypatch.context() as environ:
        for name in secured.environ():
            environ.delenv(name)
        for name, value in secured.environ_of_tokens().items():
            environ.setenv(name, value)
        worker = kafka.start(config)
        kafka.await_running(worker)
        kafka.settle()
        assert set(kafka.matches()) == {"L:l1|R:r1"}
        assert "running" in done("status", "-c", str(config))
        assert worker.terminate() == 0
        assert PASSWORD not in worker.log.read_text()
