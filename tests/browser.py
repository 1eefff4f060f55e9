"""A headless Chromium that opens a page once: what it made of it, and what that looks like."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FOUND: Final = next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE_S: Final = 60


@dataclass(frozen=True)
class Chromium:
    """Opens pages with a profile of its own."""

    profile: Path
    width: int = 640
    height: int = 480
    dark: bool = False
    budget_ms: int = 4_000
    """Of the page's own time: what it waits for passes at once, but for answers."""

    def document(self, url: str) -> str:
        """The page as its scripts have left it."""
        return self._open("--dump-dom", url)

    def picture(self, url: str, file: Path) -> Picture:
        """What it looks like."""
        self._open(f"--screenshot={file}", url)
        return Picture.of(file.read_bytes())

    def _open(self, *arguments: str) -> str:
        assert FOUND is not None, "there is no Chromium"
        command = [
            FOUND, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.profile}",
            f"--window-size={self.width},{self.height}", f"--virtual-time-budget={self.budget_ms}",
            f"--blink-settings=preferredColorScheme={0 if self.dark else 1}",
        ]  # fmt: skip
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return done.stdout


@dataclass(frozen=True)
class Picture:
    """A PNG of 8 bits a channel, as its pixels."""

    width: int
    height: int
    channels: int
    rows: list[bytes]

    @classmethod
    def of(cls, png: bytes) -> Picture:
        """Read as much of PNG as Chromium writes."""
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        at, data, head = 8, b"", b""
        while at < len(png):
            (length,), kind = struct.unpack_from(">I", png, at), png[at + 4 : at + 8]
            body = png[at + 8 : at + 8 + length]
            head = body if kind == b"IHDR" else head
            data += body if kind == b"IDAT" else b""
            at += length + 12
        width, height, depth, colour = struct.unpack_from(">IIBB", head)
        assert (depth, colour in {2, 6}) == (8, True)
        channels = 3 if colour == 2 else 4
        return cls(
            width, height, channels, _unfiltered(zlib.decompress(data), width * channels, channels)
        )

    @property
    def colours(self) -> set[bytes]:
        """Every colour of every seventh pixel of every seventh row."""
        step = 7 * self.channels
        return {row[at : at + 3] for row in self.rows[::7] for at in range(0, len(row), step)}

    @property
    def brightness(self) -> float:
        """From 0, black, to 255."""
        sample = [value for row in self.rows[::7] for value in row[:: 7 * self.channels]]
        return sum(sample) / len(sample)


def _unfiltered(data: bytes, width: int, channels: int) -> list[bytes]:
    rows: list[bytes] = []
    above = bytearray(width)
    for at in range(0, len(data), width + 1):
        kind, row = data[at], bytearray(data[at + 1 : at + 1 + width])
        for x in range(width) if kind else ():
            left = row[x - channels] if x >= channels else 0
            corner = above[x - channels] if x >= channels else 0
            row[x] = (row[x] + _predicted(kind, left, above[x], corner)) & 0xFF
        rows.append(bytes(row))
        above = row
    return rows


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 4:
        near = left + above - corner
        return min((left, above, corner), key=lambda one: abs(near - one))
    return {1: left, 2: above, 3: (left + above) // 2}[kind]
