"""Which broker is chosen, and what a person is told where none can be started."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from app.broker import BrokerUnavailable, guard, start, start_broker
from app.broker.container import docker_answers
from app.broker.jars import find_jars, find_java
from app.broker.settings import as_environment, as_properties_file

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("answer", "runs"), [(b"HTTP/1.0 200 OK", True), (b"", False)])
def test_an_engine_counts_only_when_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bytes, runs: bool
) -> None:
    path = tmp_path / "engine"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert not docker_answers()
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        engine.listen()

        def serve() -> None:
            with engine.accept()[0] as client:
                assert client.recv(1024).startswith(b"GET /_ping")
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert docker_answers() is runs
        thread.join()


def test_a_given_broker_is_taken_and_left_alone() -> None:
    with start_broker(environ={"SPANJOIN_TEST_BOOTSTRAP_SERVERS": "somewhere:9092"}) as broker:
        assert broker.bootstrap_servers == "somewhere:9092"
        assert not broker.owned
        for disturb in (broker.kill, broker.restart, broker.pause, broker.resume):
            with pytest.raises(BrokerUnavailable, match="not ours"):
                disturb()


def test_the_job_s_own_broker_is_never_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(start, "_in_docker", lambda properties, say: None)
    environ = {"SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": "prod:9092", "PATH": str(tmp_path)}
    with pytest.raises(BrokerUnavailable, match="install Docker") as failed:
        start_broker(environ=environ)
    assert "\n" not in str(failed.value)


def test_an_engine_that_fails_is_said_when_nothing_else_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(properties: object, say: object) -> None:
        raise BrokerUnavailable("no such image")

    monkeypatch.setattr(start, "_in_docker", fail)
    with pytest.raises(BrokerUnavailable, match="no such image"):
        start_broker(environ={"PATH": str(tmp_path)})


@pytest.mark.parametrize(("banner", "found"), [("21.0.1", True), ("17", True), ("1.8.0", False)])
def test_only_a_java_that_runs_this_kafka_is_taken(
    tmp_path: Path, banner: str, found: bool
) -> None:
    program(tmp_path / "java", f"echo 'openjdk version \"{banner}\"' >&2")
    assert (find_java({"PATH": str(tmp_path)}) is not None) is found


def test_java_home_comes_first(tmp_path: Path) -> None:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    program(tmp_path / "home" / "bin" / "java", "echo 'version \"17.0.1\"' >&2")
    program(tmp_path / "java", "echo 'version \"21.0.1\"' >&2")
    environ = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "home")}
    assert find_java(environ) == str(tmp_path / "home" / "bin" / "java")


def test_jars_are_fetched_once(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    program(
        tmp_path / "mvn",
        f"echo called >> {log}\n"
        'for a; do case $a in -Dout*) /bin/mkdir -p "${a#*=}";; esac; done',
    )
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said: list[str] = []
    first = find_jars(environ, said.append)
    assert first is not None
    assert first.is_dir()
    assert find_jars(environ, said.append) == first
    assert log.read_text() == "called\n"
    assert len(said) == 1


def test_a_maven_that_fails_leaves_no_half_cache(tmp_path: Path) -> None:
    program(tmp_path / "mvn", "echo could not resolve\nexit 1")
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(BrokerUnavailable, match="could not resolve"):
        find_jars(environ, print)
    assert list((tmp_path / "cache" / "spanjoin").iterdir()) == []


def test_properties_are_written_for_java_and_for_the_image() -> None:
    assert as_properties_file({"a.b": "C:\\x"}) == "a.b=C:\\\\x\n"
    assert as_environment({"log.dirs": "/x", "a-b_c": "1"}) == {
        "KAFKA_LOG_DIRS": "/x",
        "KAFKA_A__B___C": "1",
    }


def test_the_guard_ends_only_what_names_its_directory(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    for directory, ends in ((ours, True), (theirs, False)):
        directory.mkdir()
        process = subprocess.Popen([*sleep, str(ours)])
        try:
            watch = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(directory)], stdin=subprocess.PIPE
            )
            watch.communicate(f"{process.pid}\n".encode(), timeout=30)
            assert not directory.exists()
            assert (process.poll() is not None or _ends(process)) is ends
        finally:
            process.kill()
            process.wait()


def _ends(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return False
    return True
