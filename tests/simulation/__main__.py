"""The simulator's command line.

`--seeds 20000 [--first 0]` runs many on all processors; `--seed 17` runs one and shows its trace.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.simulation import simulate

BATCH = 50
SHOWN_MAX = 20


def say(line: object) -> None:
    """One line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_batch(first: int, count: int) -> list[tuple[int, str]]:
    """The seeds that failed, and how."""
    failed = []
    for seed in range(first, first + count):
        outcome = simulate(seed)
        if outcome.failure is not None:
            failed.append((seed, " ".join(repr(outcome.failure).split())))
    return failed


def run_many(first: int, count: int) -> int:
    """Run seeds in all processors; returns the exit code."""
    began = time.monotonic()
    batches = [(at, min(BATCH, first + count - at)) for at in range(first, first + count, BATCH)]
    failed: list[tuple[int, str]] = []
    done = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found_in = pool.map(run_batch, *zip(*batches, strict=True))
        for (_, size), found in zip(batches, found_in, strict=True):
            failed += found
            done += size
            for seed, how in found:
                say(f"seed {seed}: {how[:300]}")
            if done % (20 * BATCH) == 0:
                say(f"{done} of {count} seeds, {time.monotonic() - began:.0f} s")
            if len(failed) >= SHOWN_MAX:
                break
    took_s = time.monotonic() - began
    say(f"{done} seeds in {took_s:.0f} s, {len(failed)} failed")
    if failed:
        say(f"replay one with its trace: make simulate SEED={failed[0][0]}")
    return 1 if failed else 0


def run_one(seed: int) -> int:
    """Run one seed and show what happened, an event a line."""
    outcome = simulate(seed)
    say(outcome.options)
    say("\n".join(outcome.trace))
    say(
        f"{outcome.events} events in {outcome.simulated_s:.1f} simulated s, "
        f"{outcome.took_s * 1000:.0f} ms"
    )
    if outcome.failure is None:
        return 0
    traceback.print_exception(outcome.failure, file=sys.stdout)
    return 1


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    return run_many(asked.first, asked.seeds) if asked.seed is None else run_one(asked.seed)


if __name__ == "__main__":
    sys.exit(main())
