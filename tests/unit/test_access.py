"""Who may ask a worker's server, and how little a client can cost it."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

import pytest
from prometheus_client import CollectorRegistry

from app import health
from app.access import access
from app.errors import UsageError
from app.health import Health, Server, serve
from app.query import Owner, Query, _get
from app.settings import HttpTable
from tests.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN: Final = "0123456789abcdef-token"
ANSWER: Final = {"lane": 0}


def ask(_key: bytes, _linearizable: bool, _lane: int | None) -> Future[dict[str, Any]]:
    answer: Future[dict[str, Any]] = Future()
    answer.set_result(dict(ANSWER))
    return answer


def served(http_table: HttpTable) -> Server:
    worker = Health(lambda: None, lambda: None, dict, ask)
    return serve("127.0.0.1", 0, worker, CollectorRegistry(), access(http_table))


@pytest.fixture
def server() -> Iterator[Server]:
    server = served(HttpTable(token=TOKEN))
    yield server
    server.close()


def code(server: Server, path: str, authorization: str | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    headers = {} if authorization is None else {"Authorization": authorization}
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        if response.status == 401:
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
        return response.status
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/", "/page.js"])
def test_probes_and_figures_are_for_everybody(server: Server, path: str) -> None:
    assert code(server, path, None) == 200


@pytest.mark.parametrize("path", ["/status", "/matches?key=k", "/matches", "/job", "/anything"])
def test_all_else_needs_the_token(server: Server, path: str) -> None:
    for wrong in (
        None, "", TOKEN, "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}", "Bearer \xff",
    ):  # fmt: skip
        assert code(server, path, wrong) == 401, wrong
    assert code(server, path, f"Bearer {TOKEN}") != 401
    assert code(server, path, f"bearer  {TOKEN} ") != 401


def test_without_a_token_everybody_may_ask() -> None:
    server = served(HttpTable())
    try:
        assert code(server, "/status", None) == 200
    finally:
        server.close()


@pytest.mark.parametrize("token", ["short", "0123456789 abcdef", "0123456789abcdefé", " " * 20])
def test_a_token_that_is_too_easy_or_no_header_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="must be 16 or more printable ASCII characters") as error:
        HttpTable(token=token)
    assert token not in str(error.value)


def query(server: Server, http_table: HttpTable) -> dict[str, Any]:
    owner = Owner("w1", f"localhost:{server.port}")
    return _get(owner, 0, Query(b"k", linearizable=False, lane=None), http_table)


def test_query_bears_the_token(server: Server) -> None:
    assert query(server, HttpTable(token=TOKEN)) == ANSWER
    with pytest.raises(UsageError, match=r"wants another http\.token"):
        query(server, HttpTable())


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("worker")
    table = HttpTable(
        token=TOKEN,
        tls_certificate=issued.certificate,
        tls_key=issued.key,
        tls_ca=authority.file,
    )
    server = served(table)
    try:
        assert query(server, table) == ANSWER
        with pytest.raises(UsageError, match=r"is not trusted .*: set http\.tls_ca"):
            query(server, table.model_copy(update={"tls_ca": None}))
        # One that speaks without TLS, and one that says nothing, get nothing and keep nobody out.
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain:
            plain.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
            assert b"200" not in plain.recv(100)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5):
            assert query(server, table) == ANSWER
        old = ssl.create_default_context(cafile=authority.file)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        connection = http.client.HTTPSConnection("localhost", server.port, timeout=5, context=old)
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.close()


def test_files_that_are_no_certificates_are_one_line(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    with pytest.raises(UsageError, match=r"http\.tls_certificate .*junk\.pem .* cannot be used"):
        access(HttpTable(tls_certificate=junk, tls_key=junk))
    with pytest.raises(UsageError, match=r"http\.tls_key .*missing cannot be used"):
        access(HttpTable(tls_certificate=junk, tls_key=tmp_path / "missing"))


def raw(server: Server, request: bytes) -> bytes:
    """What is answered to these bytes; the end of the connection ends it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        try:
            client.sendall(request)
            found = b""
            while part := client.recv(65536):
                found += part
        except ConnectionError:
            return b""
        return found


def test_a_request_that_is_too_large_is_refused(server: Server) -> None:
    allowed = f"Authorization: Bearer {TOKEN}\r\n".encode()
    longest = b"GET /matches?key=" + b"k" * 65_000 + b" HTTP/1.0\r\n" + allowed + b"\r\n"
    assert b" 200 " in raw(server, longest).splitlines()[0]
    line = b"GET /matches?key=" + b"k" * 70_000 + b" HTTP/1.0\r\n" + allowed + b"\r\n"
    assert b" 414 " in raw(server, line).splitlines()[0]
    # No line of it is too long, but there are too many: the last ones are not read.
    padding = (b"X: " + b"x" * 60_000 + b"\r\n") * 3
    assert b" 401 " in raw(server, b"GET /status HTTP/1.0\r\n" + padding + allowed + b"\r\n")
    # One header, many, and a line without an end: nothing of them is kept.
    for headers in (b"X: " + b"x" * 200_000, b"X: x\r\n" * 200_000):
        answer = raw(server, b"GET /status HTTP/1.0\r\n" + headers + b"\r\n" + allowed + b"\r\n")
        assert b" 200 " not in answer
    assert b" 200 " not in raw(server, b"G" * 300_000)


def test_a_request_that_takes_too_long_is_hung_up_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS_MAX", 0.5)
    began = time.monotonic()
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as client,
        pytest.raises(ConnectionError),
    ):
        trickle(client, seconds=4)
    assert time.monotonic() - began < 4


def trickle(client: socket.socket, seconds: float) -> None:
    """A byte now and then, each well within the time that a request may take."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        client.sendall(b"G")
        time.sleep(0.1)
