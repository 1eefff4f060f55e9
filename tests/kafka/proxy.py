"""Stands between a broker and its clients: some requests come late, or changed, or not at all.

For a broker that advertises the proxy's port. What is sent through is a frame: four bytes of
length, then the request: which it is, its version and number, the client's id, and the rest.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from typing import TYPE_CHECKING, Final, Self

from app.broker import ENVIRONMENT_NAME, start_broker
from tests.kafka.workers import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
DESCRIBE_GROUPS: Final = 15
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_CONFIGS: Final = 32
DELETE_GROUPS: Final = 42
_LENGTH: Final = struct.Struct(">i")
_CLIENT_AT: Final = 12
_CODE_AT: Final = 12
"""Of the error in the answer to EndTxn, version 1."""
_CHUNK: Final = 65_536


class Proxy:
    """As a context manager; its threads end with their connections."""

    def __init__(self, port: int, broker: str) -> None:
        host, number = broker.rsplit(":", 1)
        self._broker = (host, int(number))
        self._port = port
        self._listening = socket.create_server((HOST, port))
        self._sockets: list[socket.socket] = []
        self._holding = threading.Event()
        self._stays: Callable[[int, str], bool] | None = None
        self._deaf: Callable[[int, str], bool] | None = None
        self._change: Callable[[int, str, bytes], bytes] | None = None
        self._going_on = threading.Event()
        self._cut_at = -1
        self.held: bytes | None = None
        """The end of a transaction whose connection was broken instead of it being passed on."""

    def keep_back(self, stays: Callable[[int, str], bool]) -> None:
        """From now on a connection stands still at a request that stays, by its kind and client."""
        self._going_on.clear()
        self._stays = stays

    def break_at(self, breaks: Callable[[int, str], bool]) -> None:
        """From now on a connection breaks at such a request, by its kind and client."""
        self._going_on.set()
        self._stays = breaks

    def break_behind(self, breaks: Callable[[int, str], bool]) -> None:
        """From now on a connection breaks behind such a request: the broker has it all the same."""
        self._deaf = breaks

    def change(self, changed: Callable[[int, str, bytes], bytes]) -> None:
        """From now on the broker gets what is made of a request, of its kind and client."""
        self._change = changed

    def go_on(self) -> None:
        """What stood still is over: those connections break. Nothing is changed any more."""
        self._stays = self._deaf = self._change = None
        self._going_on.set()

    def cut_at(self, kind: int) -> None:
        """Be gone, with every connection, as soon as a request of this kind comes."""
        self._cut_at = kind

    def come_back(self) -> None:
        """Take connections again."""
        assert self._cut_at == -1, "it was not gone"
        self._listening = socket.create_server((HOST, self._port))
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_next_end(self) -> None:
        """Keep the next EndTxn, and break the connection that it came on."""
        self._holding.set()

    def deliver(self) -> int:
        """Let the broker have what was kept; returns the code of its answer."""
        assert self.held is not None, "nothing was kept"
        with socket.create_connection(self._broker, 10) as late:
            late.sendall(self.held)
            (code,) = struct.unpack_from(">h", late.recv(_CHUNK), _CODE_AT)
        return int(code)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on()
        self._be_gone()

    def _be_gone(self) -> None:
        for one in (self._listening, *self._sockets):
            _break(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # Closed: that is the end.
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(self._broker, 10)
                broker.settimeout(None)
                self._sockets += [client, broker]
                for target in (self._requests, self._answers):
                    threading.Thread(target=target, args=(client, broker), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as sent:
            while len(head := sent.read(_LENGTH.size)) == _LENGTH.size:
                frame = head + sent.read(_LENGTH.unpack(head)[0])
                (kind,) = struct.unpack_from(">h", frame, _LENGTH.size)
                if kind == END_TXN and self._holding.is_set():
                    self._holding.clear()
                    self.held = frame
                    break
                if kind == self._cut_at:
                    self._cut_at = -1
                    self._be_gone()
                    break
                stays = self._stays
                if stays is not None and stays(kind, _client(frame)):
                    self._going_on.wait()
                    break
                change, deaf = self._change, self._deaf
                if change is not None:
                    frame = change(kind, _client(frame), frame)
                broker.sendall(frame)
                if deaf is not None and deaf(kind, _client(frame)):
                    # The broker's side stays open until its answer has come.
                    _break(client)
                    return
        _break(client)
        _break(broker)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := broker.recv(_CHUNK):
                client.sendall(chunk)
        _break(client)
        _break(broker)


@contextlib.contextmanager
def proxied_broker() -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of a broker of its own, and the address at which both are reached."""
    port = free_port()
    address = f"{HOST}:{port}"
    advertised = {"advertised.listeners": f"PLAINTEXT://{address}"}
    environ = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_NAME}
    with (
        start_broker(advertised, environ=environ) as broker,
        Proxy(port, broker.bootstrap_servers) as proxy,
    ):
        yield proxy, address


def _client(frame: bytes) -> str:
    (size,) = struct.unpack_from(">h", frame, _CLIENT_AT)
    at = _CLIENT_AT + 2
    return frame[at : at + max(size, 0)].decode()


def _break(one: socket.socket) -> None:
    """Shut it down first: to close it alone would not wake who reads from it."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
