"""The HTTP server for probes, metrics and status.

Invariant: it only reads what the worker offers and answers within bounds (connections, time,
request size), so nobody can stop or slow the join through it.
"""

from __future__ import annotations

import errno
import io
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app import page
from app.access import (
    ANYBODY,
    REQUEST_BYTES_MAX,
    REQUEST_SECONDS_MAX,
    Access,
    Incoming,
)
from app.errors import UsageError
from app.questions import NotAnswered, Unanswerable
from app.rows import SIDES
from app.secrets import hide

if TYPE_CHECKING:
    import socket
    from concurrent.futures import Future

CONNECTIONS_MAX: Final = 32
ANSWER_SEND_SECONDS_MAX: Final = 5
ANSWER_SECONDS_MAX: Final = 10
"""How long the loop may take to come to a question: a turn's time, in a bad case."""
_STOP_SECONDS: Final = 0.1
"""How soon the server notices that it is to stop."""
_PATHS: Final = "/, /livez, /readyz, /metrics, /status, /job, /matches and /timeline"
_PLAIN: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_LANE: Final = re.compile(r"[0-9]{1,9}")


Ask = Callable[[bytes, bool, int | None], "Future[dict[str, Any]]"]
"""(key, linearizable, lane or None) -> what the state says of a key; fails with NotAnswered."""

Look = Callable[[bytes, int | None, tuple[str, str] | None], "Future[dict[str, Any]]"]
"""(key, lane or None, ids of a left and a right row or None) -> the key's timelines; likewise."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the worker offers; each function is called on the server's threads.

    live, ready: None if all is well, else the reason. status: what `/status` shows. job: what
    `/job` shows.
    """

    live: Callable[[], str | None]
    ready: Callable[[], str | None]
    status: Callable[[], dict[str, Any]]
    ask: Ask | None = None
    look: Look | None = None
    job: Callable[[], dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    code: HTTPStatus
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """More headers than every answer has."""


class Server(ThreadingMixIn, HTTPServer):
    """A running server; `close` stops it."""

    daemon_threads = True
    # A full queue makes clients wait for seconds, where being hung up on tells them at once.
    request_queue_size = 2 * CONNECTIONS_MAX
    # One worker to a port: sharing it would send the probes of one worker to another.
    allow_reuse_port = False

    def __init__(
        self,
        address: tuple[str, int],
        health: Health,
        registry: CollectorRegistry,
        access: Access,
    ) -> None:
        self.health = health
        self.registry = registry
        self.access = access
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, _Requests)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_STOP_SECONDS,), name="http", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    def close(self) -> None:
        """Stop listening; answers being written are cut off."""
        self.shutdown()
        self.server_close()
        self._thread.join(ANSWER_SEND_SECONDS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Serve on a thread of its own, or hang up when there are too many already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """One connection, from its first byte to its last."""
        try:
            super().process_request_thread(self._secured(request), client_address)
        except OSError:
            self.shutdown_request(request)
        finally:
            self._free.release()

    def _secured(self, request: socket.socket) -> socket.socket:
        """The connection, under TLS if that is wanted; the handshake comes with the first read.

        Raises OSError where the client is gone already.
        """
        if self.access.tls is None:
            return request
        return self.access.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Say nothing: a client that hung up is no event of the worker's."""

    def answer(self, target: str, authorization: str = "") -> _Answer:
        """What is said to a GET of `target` by whoever shows this authorization."""
        path, _, query = target.partition("?")
        if not self.access.allows(path, authorization):
            return _unauthorized()
        return self._found(path, query)

    def _found(self, path: str, query: str) -> _Answer:
        if (file := page.file(path)) is not None:
            return _Answer(HTTPStatus.OK, file.content_type, file.body, page.HEADERS)
        health = self.health
        answers: dict[str, Callable[[], _Answer]] = {
            "/livez": lambda: _probe(health.live()),
            "/readyz": lambda: _probe(health.ready()),
            "/status": lambda: _json(health.status()),
            "/metrics": self._metrics,
        }
        if (ask := health.ask) is not None:
            answers["/matches"] = lambda: _matches(ask, query)
        if (look := health.look) is not None:
            answers["/timeline"] = lambda: _timeline(look, query)
        if (job := health.job) is not None:
            answers["/job"] = lambda: _json(job())
        return answers.get(path, _not_found)()

    def _metrics(self) -> _Answer:
        return _Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.registry))


def _not_found() -> _Answer:
    text = f"not found; there are {_PATHS}\n"
    return _Answer(HTTPStatus.NOT_FOUND, _PLAIN, text.encode())


def _unauthorized() -> _Answer:
    text = "ask with the header Authorization: Bearer, and the token of http.token\n"
    challenge = ("WWW-Authenticate", 'Bearer realm="spanjoin"')
    return _Answer(HTTPStatus.UNAUTHORIZED, _PLAIN, text.encode(), (challenge,))


def _json(found: dict[str, Any]) -> _Answer:
    text = json.dumps(found, separators=(",", ":"))
    return _Answer(HTTPStatus.OK, _JSON, f"{text}\n".encode())


def _probe(reason: str | None) -> _Answer:
    if reason is None:
        return _Answer(HTTPStatus.OK, _PLAIN, b"ok\n")
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, f"{hide(reason)}\n".encode())


def _fields(query: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in query.split("&"))


def _bytes(field: str) -> bytes:
    """What a field of a query stands for; any bytes, percent-encoded."""
    return unquote_to_bytes(field.replace("+", " "))


def _bad_request(text: str) -> _Answer:
    return _Answer(HTTPStatus.BAD_REQUEST, _PLAIN, f"{text}\n".encode())


def _matches(ask: Ask, query: str) -> _Answer:
    """What the worker's state says of the key in the query."""
    fields = _fields(query)
    consistency, lane = fields.get("consistency", "committed"), fields.get("lane")
    if (
        "key" not in fields
        or consistency not in {"committed", "linearizable"}
        or not (lane is None or _LANE.fullmatch(lane))
    ):
        return _bad_request(
            "ask /matches?key=KEY, with &consistency=committed or linearizable, and &lane=LANE"
        )
    key, linearizable = _bytes(fields["key"]), consistency == "linearizable"
    return _told(lambda: ask(key, linearizable, None if lane is None else int(lane)))


def _timeline(look: Look, query: str) -> _Answer:
    """The rows of the key in the query as the page draws them, or only two of them."""
    fields = _fields(query)
    lane = fields.get("lane")
    if (
        "key" not in fields
        or ("left" in fields) != ("right" in fields)
        or not (lane is None or _LANE.fullmatch(lane))
    ):
        return _bad_request("ask /timeline?key=KEY, with &left=ID&right=ID, and &lane=LANE")
    key, pair = _bytes(fields["key"]), None
    if "left" in fields:
        left, right = (_bytes(fields[side]).decode("utf-8", "replace") for side in SIDES)
        pair = left, right
    return _told(lambda: look(key, None if lane is None else int(lane), pair))


def _told(ask: Callable[[], Future[dict[str, Any]]]) -> _Answer:
    """The answer to a question, once there is one.

    503 with the reason where this worker does not know: `spanjoin query` finds the one that does.
    """
    try:
        return _json(ask().result(ANSWER_SECONDS_MAX))
    except Unanswerable as why:
        return _Answer(HTTPStatus.UNPROCESSABLE_ENTITY, _PLAIN, f"{why}\n".encode())
    except NotAnswered as why:
        return _probe(str(why))
    except TimeoutError:
        return _probe("the worker did not answer in time")


class _Requests(BaseHTTPRequestHandler):
    server: Server
    timeout = ANSWER_SEND_SECONDS_MAX
    server_version = "spanjoin"
    sys_version = ""
    # What cannot be understood, or is no GET, is answered as everything else is.
    error_content_type = _PLAIN
    error_message_format = "%(message)s\n"

    def setup(self) -> None:
        """Take over a connection."""
        super().setup()
        self.rfile.close()
        incoming = Incoming(self.connection, REQUEST_SECONDS_MAX, REQUEST_BYTES_MAX)
        self.rfile = io.BufferedReader(incoming)

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def _respond(self, *, with_body: bool) -> None:
        answer = self.server.answer(self.path, self.headers.get("Authorization", ""))
        self.connection.settimeout(ANSWER_SEND_SECONDS_MAX)
        self.send_response(answer.code)
        for header in answer.headers:
            self.send_header(*header)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name it has)
        """Probes come every few seconds: not a line each."""


def serve(
    host: str,
    port: int,
    health: Health,
    registry: CollectorRegistry = REGISTRY,
    access: Access = ANYBODY,
) -> Server:
    """Start to listen on `host`:`port` (0: any free port).

    Raises UsageError if the address cannot be listened on.
    """
    try:
        return Server((host, port), health, registry, access)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "is taken: stop the program that listens there, or choose another http.port"
        else:
            reason = f"cannot be listened on ({error.strerror}): correct http.host and http.port"
        raise UsageError(f"http address {host}:{port} {reason}") from None
    except OverflowError:
        raise UsageError(f"http.port {port} must be at most 65535: --workers adds to it") from None
