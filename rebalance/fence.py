"""Step 3 and 4 of a takeover: make sure that nobody can write any more, then ask how far to read.

How the order goes wrong when it is another one:

1. The old owner sends offsets 10 -> 20 and its changelog record, then stops before the commit.
2. The new owner reads the high watermark H of the changelog: the record is below it, undecided.
3. It must not read only to the last stable offset: the old owner may still commit, and its turn
   would be missing from the new owner's state. So open transactions are ended first (fence).
4. Offsets are read while they are stable and *before* the high watermark. Were they read after
   it, a turn committed in between would put them ahead of a checkpoint that is about to be
   replayed, and a healthy lane would stop with a false alarm.
5. The inputs' ends are read last: no position below that high watermark is beyond them.

Only names found in the log are fenced, never the live producer's own, and each once: two claimants
that fenced each other's current names would do so for ever.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from rebalance.lanes import Bound, Extent, Fenced

RELEASE_MARKER_WAIT_MS: Final = 1_000
"""How long the commit marker of a release may lag before its writer is fenced after all."""
_RETRY_MS: Final = 10


class Stamp(NamedTuple):
    """What the headers of one changelog record say; enough to fence without decoding it."""

    writer: str
    released: bool


class Authority(Protocol):
    """The broker as a takeover needs it. Calls block and are made off the worker's thread."""

    def look_again(self) -> None:
        """After an answer that cannot be: wait a little, and learn anew whom to ask."""

    def changelog(self, lane: int) -> Extent:
        """Log start and *high watermark* of the lane's changelog."""

    def stable(self, lane: int) -> int:
        """The changelog's last stable offset: everything below it is decided."""

    def tail(self, lane: int, start: int, end: int) -> list[Stamp] | None:
        """Stamps of all records in [start, end), committed or not.

        None: the log does not have this place, or not any more.
        """

    def fence(self, writer: str) -> None:
        """End what this transactional id may have open; returns when it is decided and marked.

        The second time it returns at once: a name that was ended is never used again.
        """

    def stored(self, lane: int) -> tuple[int | None, int | None]:
        """The group's stable offsets of both inputs; waits while a transaction holds them."""

    def inputs(self, lane: int) -> tuple[Extent, Extent]:
        """Extents of both inputs' partitions."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a takeover knows before it asks the broker."""

    lane: int
    position: int
    """Where the committed replay stopped: the offset of a partition EOF."""
    suspect: str | None
    """The writer of the last checkpoint, unless it released the lane itself."""
    own: frozenset[str]
    """Never fenced: the live producer's id, and earlier ones that have nothing open."""
    doubted: bool = False
    """Whether what the broker said before cannot be."""


def fence_tail(authority: Authority, lane: int, own: frozenset[str]) -> None:
    """End what stands undecided in a lane's changelog, while the lane is still being restored.

    To end an open transaction takes long, and until then nobody sees what others have written
    behind its records in the outputs. It is safe at any time after the assignment: `establish` goes
    through all its steps later, whatever was ended before.

    A log that begins beyond its undecided tail by now was cut by somebody who has claimed the lane
    since, while we slept, and had ended that tail before. There may be another one, but whose turn
    that is, a healthy worker's most likely, is not ours to end before we know that it is our lane:
    that is left to `establish`.
    """
    stamps = _stamps(authority, lane, _undecided(authority, lane))
    if stamps and not stamps[-1].released:
        for name in sorted({stamp.writer for stamp in stamps} - own):
            authority.fence(name)


def establish(authority: Authority, survey: Survey) -> Fenced | None:
    """Fence the former owners, then read stored offsets, bound and inputs' ends, in this order.

    None: more of the changelog is decided than was replayed, so who wrote last is not known yet;
    replay on and ask again.
    """
    if survey.doubted:
        authority.look_again()
    names = _suspects(authority, survey)
    if names is None:
        return None
    for name in sorted(names):
        authority.fence(name)
    stored = authority.stored(survey.lane)
    changelog = authority.changelog(survey.lane)
    return Fenced(names, Bound(stored, authority.inputs(survey.lane), changelog))


def extent_of(authority: Authority, lane: int, *, doubted: bool) -> Extent:
    """Where the lane's changelog begins and ends; `doubted` as in a `Survey`."""
    if doubted:
        authority.look_again()
    return authority.changelog(lane)


def _undecided(authority: Authority, lane: int) -> Extent:
    """The part of a lane's changelog that is not decided yet.

    A transaction that is open while the log is cut beyond it keeps the last stable offset below
    the log's beginning: what it wrote there is gone.
    """
    stable = authority.stable(lane)
    start, high = authority.changelog(lane)
    return Extent(max(stable, start), high)


def _stamps(authority: Authority, lane: int, part: Extent) -> list[Stamp] | None:
    """Of a part of the changelog; None if it is not there any more."""
    return authority.tail(lane, part.start, part.end) if part.start < part.end else []


def _suspects(authority: Authority, survey: Survey) -> frozenset[str] | None:
    """Who may still have a transaction open that touches this lane; None: replay on first."""
    deadline = time.monotonic() + RELEASE_MARKER_WAIT_MS / 1000
    while True:
        undecided = _undecided(authority, survey.lane)
        if survey.position < undecided.start:
            return None
        stamps = _stamps(authority, survey.lane, undecided)
        if stamps is None:
            # The lane has had another owner meanwhile, who has cut the log, or one of the answers
            # is old news. What was undecided then says nothing of now: all is asked anew, and the
            # new end may be beyond what we have replayed.
            authority.look_again()
            continue
        # A lane handed over in good order whose release only lacks its marker: fencing now would
        # throw a healthy worker out of all its other lanes.
        if stamps and stamps[-1].released and time.monotonic() < deadline:
            time.sleep(_RETRY_MS / 1000)
            continue
        suspects = {stamp.writer for stamp in stamps}
        if survey.suspect is not None:
            suspects.add(survey.suspect)
        return frozenset(suspects) - survey.own
