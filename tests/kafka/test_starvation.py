"""A client that stands still while it says nothing: one side of a lane is not fed any more."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.avro import encode, instant
from tests.kafka.starving import PAUSED

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

RESTARTED: Final = 75
OTHER: Final = {"left": "right", "right": "left"}


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_side_that_is_not_fed_is_sought_anew_and_given_up(kafka: Harness, side: str) -> None:
    """It asks every 0.3 s here, not every 5 s, so three minutes are five seconds."""
    job = kafka.job
    topics = {"left": job.left, "right": job.right}
    kafka.create_topics(1)
    config = kafka.write_config()
    worker = kafka.launch([sys.executable, "-m", "tests.kafka.starving", str(config), side])
    kafka.await_running(worker)
    kafka.send(topics[OTHER[side]], b"k", encode(instant("one", 10)))
    kafka.send(topics[side], b"k", encode(instant("before", 10)))
    kafka.settle()
    assert len(kafka.matches()) == 1

    worker.process.send_signal(signal.SIGUSR1)
    kafka.await_(lambda: PAUSED in worker.log.read_text(), 10, worker.tail)
    kafka.send(topics[side], b"k", encode(instant("after", 10)))
    kafka.settle(20)
    assert len(kafka.matches()) == 2
    # What it looks for so often may have been sought before, too, until it was first fed.
    told = worker.log.read_text().partition(PAUSED)[2]
    (line,) = [one for one in told.splitlines() if "side not fed" in one]
    assert f"side={side}" in line
    assert "spanjoin_starved_sides_total 0.0" not in worker.get("/metrics")[1]

    worker.expect_end()
    worker.process.send_signal(signal.SIGUSR2)
    kafka.await_(lambda: f"{PAUSED} for good" in worker.log.read_text(), 10, worker.tail)
    kafka.send(topics[side], b"k", encode(instant("at last", 10)))
    kafka.flush()
    assert worker.wait(40) == RESTARTED, worker.tail()
    (end,) = kafka.cluster.ends(topics[side]).values()
    said = f"spanjoin: nothing of the {side} side of lane 0 comes from the client any more, at"
    assert worker.tail().splitlines()[-1] == f"{said} {end - 1} of {end}"
    kafka.start(config)
    kafka.settle()
    assert len(kafka.matches()) == 3
