"""The tables of the handoff, for the terminal and for RESULTS.md."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from bench.handoff.figures import quantile
from bench.handoff.moves import ENDS, JOINS, KILLED, KILLED_IN_TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.handoff.moves import Move, Stayed
    from bench.handoff.sessions import Session

TARGETS: Final = {
    JOINS: "median < 2 s",
    ENDS: "median < 2 s",
    KILLED: "p95 < 8 s",
    KILLED_IN_TRANSACTION: "p95 < 8 s",
}

Sessions = dict[str, list["Session"]]
"""System -> one entry a round."""


def line(move: Move) -> str:
    """One move, for the terminal."""
    moved = ", ".join(f"{lane}: {_s(gap.length)}" for lane, gap in sorted(move.moved.items()))
    stayed = ", ".join(
        f"{lane}: {_s(one.gap_before_us)} > {_s(one.gap_us)} s, {one.rate_kept:.0%}"
        for lane, one in sorted(move.stayed.items())
    )
    return f"{move.how}: moved {moved} s; stayed {stayed}"


def tables(steady: Sessions, saturated: Sessions) -> str:
    """Everything."""
    return "\n\n".join((_moved(steady), _stayed(steady, saturated)))


def _moved(steady: Sessions) -> str:
    lines = [
        "| a lane without results when | system | lanes | median s | p95 s | longest s | target |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for how, target in TARGETS.items():
        for system, sessions in steady.items():
            gaps = [
                gap.length / 1e6 for move in _moves(sessions, how) for gap in move.moved.values()
            ]
            if gaps:
                lines.append(
                    f"| {how} | {system} | {len(gaps)} | {median(gaps):.2f} "
                    f"| {quantile(gaps, 0.95):.2f} | {max(gaps):.2f} | {target} |"
                )
    return "\n".join(lines)


def _stayed(steady: Sessions, saturated: Sessions) -> str:
    lines = [
        (
            "| lanes that stay, while | system | lanes | nothing seen before, s | during, median s "
            "| p95 s | results written, of before: median | worst |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for label, results in (("", steady), (", all they can take", saturated)):
        for how in TARGETS:
            for system, sessions in results.items():
                lanes = [one for move in _moves(sessions, how) for one in move.stayed.values()]
                if lanes:
                    lines.append(f"| {how}{label} | {system} | {_stayed_cells(lanes)} |")
    return "\n".join(lines)


def _stayed_cells(lanes: list[Stayed]) -> str:
    kept = [one.rate_kept for one in lanes]
    during = [one.gap_us / 1e6 for one in lanes]
    before = [one.gap_before_us / 1e6 for one in lanes]
    return (
        f"{len(lanes)} | {median(before):.2f} | {median(during):.2f} | "
        f"{quantile(during, 0.95):.2f} | {median(kept):.0%} | {min(kept):.0%}"
    )


def _moves(sessions: Iterable[Session], how: str) -> list[Move]:
    return [move for session in sessions for move in session.moves if move.how == how]


def _s(us: int) -> str:
    return f"{us / 1e6:.2f}"
