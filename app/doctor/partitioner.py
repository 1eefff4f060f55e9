"""With which partitioner a side was written, told from where its keys lie.

Equal keys of left and right must be in the same partition number.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from app.doctor.finding import Finding, fail, ok, warn
from app.rows import printable
from schemas.partition import PARTITIONERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_CHANCE: Final = 1e-6
"""An agreement that is likelier than this may be chance."""
_STRAYS: Final = 0.02
"""Part of the keys that may lie elsewhere: rows written to a partition by its number."""
_SHARE_MIN: Final = 0.05
"""A partitioner that placed fewer keys than this is none that was used."""
MEND: Final = (
    'let all producers of both sides use one partitioner, such as "partitioner": "murmur2_random" '
    "in librdkafka's, which is Java's default; then write the side again into a new topic"
)


HASHES: Final[Mapping[str, Callable[[bytes], int]]] = {
    "murmur2 (Java's default)": PARTITIONERS["murmur2"],
    "CRC32 (librdkafka's default)": PARTITIONERS["crc32"],
    "FNV-1a (Sarama's default)": PARTITIONERS["fnv1a"],
}
"""Partitioner -> hash; the partition is its remainder."""


class Placement(NamedTuple):
    """Where the keys of a side lie: (key, partition), each once, of a sample of its records."""

    name: str
    partitions: int
    places: frozenset[tuple[bytes, int]]

    @property
    def keys(self) -> frozenset[bytes]:
        """The keys of the sample."""
        return frozenset(key for key, _ in self.places)

    @property
    def certain(self) -> bool:
        """Whether there are enough keys for their places not to be chance."""
        return len(self.keys) * log(self.partitions) > -log(_CHANCE)


def placement(name: str, partitions: int, keys: Iterable[tuple[bytes | None, int]]) -> Placement:
    """The placement of a sample of (key, partition).

    An empty key is placed like none by most producers, hence says nothing.
    """
    return Placement(name, partitions, frozenset((key, at) for key, at in keys if key))


class Verdict(NamedTuple):
    """What placed the keys: one of the candidates, or several partitioners that did together."""

    candidates: frozenset[str]
    mixed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """For people."""
        if not self.candidates | self.mixed:
            return "one that is not known here"
        return (" and " if self.mixed else " or ").join(sorted(self.candidates | self.mixed))


def verdict_of(side: Placement) -> Verdict:
    """Which partitioner agrees with nearly every place."""
    fitting = {
        name: {(key, at) for key, at in side.places if place(key) % side.partitions == at}
        for name, place in HASHES.items()
    }
    enough = len(side.places) * (1 - _STRAYS)
    if found := frozenset(name for name, fits in fitting.items() if len(fits) >= enough):
        return Verdict(found)
    for one, two in combinations(HASHES, 2):
        alone = (fitting[one] - fitting[two], fitting[two] - fitting[one])
        both_used = min(map(len, alone)) > len(side.places) * _SHARE_MIN
        if both_used and len(fitting[one] | fitting[two]) >= enough:
            return Verdict(frozenset(), frozenset((one, two)))
    return Verdict(frozenset())


def partitioner_findings(left: Placement, right: Placement) -> list[Finding]:
    """Whether equal keys of the two sides meet."""
    if min(left.partitions, right.partitions) <= 1:
        return [ok("partitioner: one partition, so all keys meet")]
    verdicts = [verdict_of(side) for side in (left, right)]
    found = [
        finding
        for side, verdict in zip((left, right), verdicts, strict=True)
        for finding in _of_one(side, verdict)
    ]
    if found or not (left.places and right.places):
        return found
    return [_of_both(left, right, *verdicts)]


def disagreement(left: Placement, right: Placement) -> str | None:
    """What placed each side, where for certain that was two different partitioners; else None.

    Keys that lie anyhow say nothing here: who knows what their owner had in mind.
    """
    if min(left.partitions, right.partitions) <= 1 or not (left.certain and right.certain):
        return None
    of_left, of_right = verdict_of(left), verdict_of(right)
    told = of_left.candidates and of_right.candidates
    if not told or of_left.candidates & of_right.candidates:
        return None
    return f"{left.name} was written with {of_left.name}, {right.name} with {of_right.name}"


def _of_one(side: Placement, verdict: Verdict) -> list[Finding]:
    counts = Counter(key for key, _ in side.places)
    if not counts:
        return [warn(f"partitioner: {side.name} has no keys to look at yet")]
    scattered = [key for key, places in counts.items() if places > 1]
    if verdict.mixed:
        return [
            fail(
                f"partitioner: the keys of {side.name} were placed by two partitioners, "
                f"{verdict.name}, so rows of one key do not meet",
                MEND,
            )
        ]
    if scattered and not verdict.candidates:
        return [
            fail(
                f"partitioner: {len(scattered)} of {len(counts)} sampled keys of {side.name} are "
                f"in several partitions, such as {shown(scattered[0])}: its producer places them "
                f"at random, or partitions were added, and most matches are missed",
                MEND,
            )
        ]
    return []


def _of_both(left: Placement, right: Placement, of_left: Verdict, of_right: Verdict) -> Finding:
    shared = left.keys & right.keys
    apart = shared - {key for key, _ in left.places & right.places}
    names = f"{left.name} was written with {of_left.name}, {right.name} with {of_right.name}"
    if left.partitions == right.partitions and len(apart) > len(shared) * _STRAYS:
        return fail(
            f"partitioner: {len(apart)} of {len(shared)} sampled keys that both sides have are in "
            f"different partitions, such as {shown(min(apart))}: {names}, and such rows never meet",
            MEND,
        )
    certain = left.certain and right.certain
    common = of_left.candidates & of_right.candidates
    if certain and common:
        return ok(f"partitioner: both sides were written with {Verdict(common).name}")
    if certain and of_left.candidates and of_right.candidates:
        return fail(f"partitioner: {names}: equal keys do not meet", MEND)
    if shared and len(shared) * log(left.partitions) > -log(_CHANCE):
        return ok(f"partitioner: {len(shared)} sampled keys are on both sides, all together")
    if certain:
        return warn(
            f"partitioner: {names}, and too few sampled keys are on both sides to see whether they "
            f"meet",
            "see to it that the producers of both sides place equal keys alike",
        )
    return _by_few(left, right, common)


def _by_few(left: Placement, right: Placement, common: frozenset[str]) -> Finding:
    """What can be said where their places may be chance."""
    if len(common) != 1:
        return warn("partitioner: too few keys to tell whether both sides were written alike")
    few = f"{len(left.keys)} of {left.name} and {len(right.keys)} of {right.name}"
    return ok(f"partitioner: both sides agree with {Verdict(common).name}, by few keys: {few}")


def shown(key: bytes) -> str:
    """A key for people."""
    text = printable(key.decode("utf-8", "backslashreplace"))
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}...")


_SHOWN_MAX: Final = 40
