from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from app import health
from app.errors import UsageError
from app.health import CONNECTIONS_MAX, Health, Server, serve
from app.run import Process, _http
from tests.unit.jobs import MINIMAL, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Worker:
    def __init__(self) -> None:
        self.dead: str | None = None
        self.busy: str | None = "lane 0 is restoring"

    def health(self) -> Health:
        return Health(lambda: self.dead, lambda: self.busy, lambda: {"worker": "me", "lanes": []})


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def server(worker: Worker) -> Iterator[Server]:
    registry = CollectorRegistry()
    Counter("spanjoin_things", "Things", registry=registry).inc(3)
    server = serve("127.0.0.1", 0, worker.health(), registry)
    yield server
    server.close()


def get(server: Server, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.getheader("Content-Type", "")
    finally:
        connection.close()


def test_probes(server: Server, worker: Worker) -> None:
    assert get(server, "/livez")[:2] == (200, "ok\n")
    assert get(server, "/readyz")[:2] == (503, "lane 0 is restoring\n")
    worker.busy = None
    assert get(server, "/readyz")[:2] == (200, "ok\n")
    worker.dead = "the loop stands still"
    assert get(server, "/livez?verbose")[:2] == (503, "the loop stands still\n")


def test_status_and_metrics(server: Server) -> None:
    code, body, kind = get(server, "/status")
    assert (code, json.loads(body), kind) == (
        200,
        {"worker": "me", "lanes": []},
        "application/json",
    )
    code, body, kind = get(server, "/metrics")
    assert code == 200
    assert "spanjoin_things_total 3.0" in body
    assert kind.startswith("text/plain")


def test_everything_else_is_refused(server: Server) -> None:
    assert get(server, "/nothing")[0] == 404
    assert get(server, "/page/index.html")[0] == 404
    assert get(server, "/livez/../etc/passwd")[0] == 404
    assert get(server, "/livez", "POST") == (
        501, "Unsupported method ('POST')\n", "text/plain; charset=utf-8",
    )  # fmt: skip
    code, body, _ = get(server, "/status", "HEAD")
    assert (code, body) == (200, "")


def test_a_broken_function_is_an_answer(worker: Worker) -> None:
    def broken() -> str | None:
        raise RuntimeError

    server = serve("127.0.0.1", 0, Health(broken, broken, dict), CollectorRegistry())
    try:
        with pytest.raises((http.client.HTTPException, OSError)):
            get(server, "/livez")
        assert get(server, "/status")[0] == 200
    finally:
        server.close()


def test_silent_clients_do_not_keep_others_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS_MAX", 0.2)
    clients = [
        socket.create_connection(("127.0.0.1", server.port)) for _ in range(CONNECTIONS_MAX + 5)
    ]
    try:
        for client in clients:
            client.settimeout(5)
            assert client.recv(1) == b"", "hung up on, at once or after a while"
        assert get(server, "/livez")[0] == 200
    finally:
        for client in clients:
            client.close()


def test_a_taken_port_is_one_line(server: Server, worker: Worker) -> None:
    with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{server.port} is taken: stop the program"):
        serve("127.0.0.1", server.port, worker.health(), CollectorRegistry())


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("192.0.2.1", 0, "cannot be listened on"),
        ("127.0.0.1", 70_000, "must be at most 65535: --workers adds to it"),
    ],
)
def test_an_impossible_address_is_one_line(
    worker: Worker, host: str, port: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        serve(host, port, worker.health(), CollectorRegistry())


def test_a_worker_tells_where_it_is_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for text, told in (
        (f"[http]\nport = {port}\n", [f"127.0.0.1:{port}"]),
        ("[http]\nport = 0\n", []),
    ):
        with capture_logs() as lines, _http(job(tmp_path, MINIMAL + text), Process()):
            assert [line["at"] for line in lines if line["log_level"] == "info"] == told


def test_the_port_is_free_after_closing(worker: Worker) -> None:
    first = serve("127.0.0.1", 0, worker.health(), CollectorRegistry())
    port = first.port
    get(first, "/livez")
    first.close()
    second = serve("127.0.0.1", port, worker.health(), CollectorRegistry())
    second.close()
