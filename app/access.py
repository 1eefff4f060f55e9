"""Who may ask a worker, and over what: bearer token, TLS, and how much may be sent to it.

Invariant: a connection costs a bounded time and memory, however slowly or much its client sends.
"""

from __future__ import annotations

import hmac
import io
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app import page
from app.errors import UsageError

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from typing_extensions import Buffer

    from app.settings import HttpTable

OPEN: Final = frozenset({"/livez", "/readyz", "/metrics", *page.PATHS})
"""What anybody may ask: probes, figures, and the page without what it shows; nothing of a record.
A browser has no way to send a token along when it is told to open a page."""
REQUEST_BYTES_MAX: Final = 128 * 1024
"""Of a request with all its headers. More than its first line may have (64 KiB): one that is longer
must be seen to be, and not be taken for what is left of it."""
REQUEST_SECONDS_MAX: Final = 5.0
"""From the first byte of a connection to the end of its request."""
_SCHEME: Final = "bearer"


@dataclass(frozen=True, slots=True)
class Access:
    """The token that opens everything, and what makes connections TLS ones; where they are set."""

    token: str = ""
    tls: ssl.SSLContext | None = None

    def allows(self, path: str, authorization: str) -> bool:
        """Whether a request with this header may have what is at `path`."""
        if not self.token or path in OPEN:
            return True
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        # Takes as long for a token that is nearly right as for any other.
        return scheme.lower() == _SCHEME and hmac.compare_digest(given, self.token.encode())


ANYBODY: Final = Access()
"""No token, no TLS: for a server that only this machine reaches."""


def access(http: HttpTable) -> Access:
    """What the configuration says of it. Raises UsageError where a file cannot be used."""
    if http.tls_certificate is None or http.tls_key is None:
        return Access(http.token)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Never ask for a passphrase on the terminal.
        context.load_cert_chain(http.tls_certificate, http.tls_key, password=_no_passphrase)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise UsageError(
            f"http.tls_certificate {http.tls_certificate} and http.tls_key {http.tls_key} cannot "
            f"be used: {error}"
        ) from None
    return Access(http.token, context)


def client_context(http: HttpTable) -> ssl.SSLContext | None:
    """How a command speaks to a worker of this configuration; None: without TLS."""
    if http.tls_certificate is None:
        return None
    return _trusting(http.tls_ca)


def _trusting(authorities: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"http.tls_ca {authorities} cannot be used: {error}") from None


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase: give one without")


class Incoming(io.RawIOBase):
    """What a client sends, for so long and so much as a request may take; then it ends."""

    def __init__(self, connection: socket.socket, seconds: float, bytes_max: int) -> None:
        self._connection = connection
        self._until = time.monotonic() + seconds
        self._left = bytes_max

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Wait for some bytes; 0 once there were as many as may be. Raises TimeoutError."""
        view = memoryview(buffer)[: self._left]
        if not view:
            return 0
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the request takes too long")
        self._connection.settimeout(remaining)
        received = self._connection.recv_into(view)
        self._left -= received
        return received
