"""Asking the owner of a lane: what is sent, and what each of its answers means."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from app.config import load_config
from app.errors import Crash, UsageError
from app.health import Health, serve
from app.query import NotNow, Owner, Query, _get, parse_key, show
from app.questions import NotAnswered, Unanswerable
from app.settings import HttpTable
from tests.unit.jobs import write_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPEN = HttpTable()
ROW = {"id": "l1", "ts": 5, "start": 0, "end": 9, "record": {"id": "l1", "payload": "[red]"}}
ANSWER: dict[str, Any] = {
    "lane": 3,
    "epoch": 7,
    "watermark": 5,
    "rows": {"left": [ROW], "right": []},
    "matches": [{"id": "L:l1|R:r1", "start": 0, "end": 1_500, "left": "l1", "right": "r1"}],
}


class Server:
    """A worker's server; answers what it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bool, int | None]] = []
        self.says: dict[str, Any] | Exception = ANSWER
        health = Health(lambda: None, lambda: None, dict, self._ask)
        self._server = serve("127.0.0.1", 0, health, CollectorRegistry())
        self.owner = Owner("w1", f"127.0.0.1:{self._server.port}")
        self.close = self._server.close

    def _ask(self, key: bytes, linearizable: bool, lane: int | None) -> Future[dict[str, Any]]:
        self.asked.append((key, linearizable, lane))
        answer: Future[dict[str, Any]] = Future()
        if isinstance(self.says, Exception):
            answer.set_exception(self.says)
        else:
            answer.set_result(self.says)
        return answer


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.mark.parametrize("key", [b"k", b"", b"\x00\xff&=+% /?#", "schlüssel".encode()])
@pytest.mark.parametrize("linearizable", [True, False])
def test_any_key_arrives(server: Server, key: bytes, linearizable: bool) -> None:
    assert _get(server.owner, 3, Query(key, linearizable, None), OPEN) == ANSWER
    assert server.asked == [(key, linearizable, 3)]


def test_what_the_owner_refuses(server: Server) -> None:
    query = Query(b"k", linearizable=False, lane=None)
    server.says = NotAnswered("lane 3 is not running on this worker")
    with pytest.raises(NotNow, match="lane 3 is not running on this worker"):
        _get(server.owner, 3, query, OPEN)
    server.says = Unanswerable("too many rows")
    with pytest.raises(Crash, match="answers 422: too many rows"):
        _get(server.owner, 3, query, OPEN)
    with pytest.raises(UsageError, match="key of 70000 bytes is too long"):
        _get(server.owner, 3, query._replace(key=b"k" * 70_000), OPEN)


def test_nobody_there(server: Server) -> None:
    query = Query(b"k", linearizable=False, lane=None)
    server.close()
    with pytest.raises(NotNow, match=rf"worker w1 at {server.owner.address}: .*refused"):
        _get(server.owner, 3, query, OPEN)
    with pytest.raises(UsageError, match=r"runs lane 3, has no HTTP server: set http\.port"):
        _get(Owner("w1", ""), 3, query, OPEN)
    for address in ("localhost", "localhost:http"):
        with pytest.raises(UsageError, match=r"correct http\.advertised"):
            _get(Owner("w1", address), 3, query, OPEN)


def test_keys_on_the_command_line() -> None:
    assert parse_key("schlüssel", as_hex=False) == "schlüssel".encode()
    assert parse_key("\udcff", as_hex=False) == b"\xff"
    assert parse_key("00 fF", as_hex=True) == b"\x00\xff"
    with pytest.raises(UsageError, match="pairs of hexadecimal digits, not '0'"):
        parse_key("0", as_hex=True)


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(write_job(tmp_path), {})
    query = Query(b"k\x1b", linearizable=False, lane=None)
    show(config, query, ANSWER)
    out = capsys.readouterr().out
    for text in (
        "k\\x1b: lane 3, epoch 7, watermark 1970-01-01 00:00:00.005",
        "l1 payload=[red]",
        "1 match\n",
        "1970-01-01 00:00:00 - 1970-01-01 00:00:01.500",
    ):
        assert text in out
    show(config, query, {**ANSWER, "rows": {"left": [], "right": []}, "matches": []})
    title, said = capsys.readouterr().out.splitlines()
    assert title == "k\\x1b: lane 3, epoch 7, watermark 1970-01-01 00:00:00.005"
    assert said.startswith("no live rows of this key")
