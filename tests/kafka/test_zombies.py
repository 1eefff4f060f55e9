"""Workers that stop in a transaction: who wins, they on waking or whoever took over meanwhile.

`test_crashes` has the order in which the takeover comes first, at every step. Here the commit does;
and here nobody takes over at all, but the coordinator's time for the transaction is up.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.streams import random_stream
from tests.kafka.victims import Trickle, finish, halted, victim, writers

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

SMALL_TURNS: Final = "[turn]\nmax_records = 50\n"
PATIENT_TRANSACTIONS: Final = '[kafka.producer]\n"transaction.timeout.ms" = 60000\n'
BRIEF_TRANSACTIONS: Final = (
    '[kafka.producer]\n"transaction.timeout.ms" = 1000\n'
    '[kafka.consumer]\n"session.timeout.ms" = 20000\n"heartbeat.interval.ms" = 200\n'
)
TIMED_OUT_S: Final = 3.0
"""The transaction's second, and the one in which the coordinator looks for such."""
WITHIN_S: Final = 40


@pytest.mark.parametrize("step", ["turn.offsets", "claim.offsets"])
def test_a_commit_that_comes_before_the_takeover_counts(kafka: Harness, step: str) -> None:
    """It lost the lane in its sleep, and yet nobody has fenced it: the next owner goes on from it.

    After `claim.offsets` that is a second claimant, of a lane that the first one has claimed.
    """
    kafka.create_topics(1)
    config = kafka.write_config(text=f"{PATIENT_TRANSACTIONS}{SMALL_TURNS}")
    trickle = Trickle(kafka, random_stream(601, 3_000, keys=100, lanes=1, step=0.05))
    sleeper = victim(kafka, config, "STOP", step)
    trickle.until(sleeper)
    # The next owner has the lane, and has not looked at anything yet.
    heir = victim(kafka, config, "STOP", "restore", state="heir")
    kafka.await_(lambda: halted(heir), WITHIN_S, heir.tail)
    before = writers(kafka).get(0, [])
    assert not kafka.cluster.decided(kafka.job.changelog)
    sleeper.resume()
    kafka.await_(lambda: kafka.cluster.decided(kafka.job.changelog), WITHIN_S, sleeper.tail)
    (late,) = writers(kafka)[0][len(before) :]
    heir.resume()
    kafka.await_(
        lambda: sleeper.process.poll() == 75 or " lost " in sleeper.log.read_text(),
        WITHIN_S,
        sleeper.tail,
    )
    finish(kafka, trickle, trickle.stream)
    turns = writers(kafka)[0]
    assert turns[: len(before) + 1] == [*before, late]
    assert turns[-1][0] > late[0]


def test_a_transaction_that_takes_too_long_is_run_again(kafka: Harness) -> None:
    """Its owner sleeps, but not for a session: nobody else ends it, and the lane stays."""
    steps = ["turn.logged", "turn.offsets"]
    kafka.quick_session = False
    kafka.create_topics(len(steps))
    config = kafka.write_config(text=f"{BRIEF_TRANSACTIONS}{SMALL_TURNS}")
    stream = random_stream(602, 6_000, keys=200, lanes=len(steps), step=0.05)
    trickle = Trickle(kafka, stream)
    sleepers = [victim(kafka, config, "STOP", step, state=step) for step in steps]
    kafka.await_(lambda: all(len(one.running()) == 1 for one in sleepers), WITHIN_S, str)
    for sleeper in sleepers:
        trickle.until(sleeper)
    time.sleep(TIMED_OUT_S)
    for sleeper in sleepers:
        sleeper.resume()
    for sleeper in sleepers:
        kafka.await_(
            lambda: "thrown away" in sleeper.log.read_text(),  # noqa: B023
            WITHIN_S,
            sleeper.tail,
        )
    finish(kafka, trickle, stream)
    for sleeper in sleepers:
        assert " lost " not in sleeper.log.read_text()
        assert sleeper.terminate() == 0
    writers(kafka)
