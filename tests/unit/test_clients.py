"""What a client's log says of its connections; the lines are librdkafka's own."""

from __future__ import annotations

import logging
import threading

import pytest

from app.kafka.clients import Listener, close_within, for_admin, with_defaults

AT = "[thrd:127.0.0.1:9092/1]: 127.0.0.1:9092/1: "


@pytest.mark.parametrize(
    ("facility", "line", "broke"),
    [
        ("FAIL", f"{AT}Disconnected (after 1508ms in state UP)", True),
        (
            "FAIL",
            f"{AT}Disconnected (after 9ms in state UP, 1 identical suppressed)",
            True,
        ),
        ("FAIL", f"{AT}Receive failed: Connection reset by peer (after 12ms in state UP)", True),
        ("FAIL", f"{AT}Disconnected (after 40ms in state REAUTH)", True),
        ("REQTMOUT", f"{AT}Timed out 1 in-flight, 0 retry-queued, 0 out-queue requests", True),
        ("FAIL", f"{AT}Connect to ipv6#[::1]:9092 failed (after 0ms in state CONNECT)", False),
        ("FAIL", f"{AT}Disconnected (after 3ms in state APIVERSION_QUERY)", False),
        ("GETPID", f"{AT}Failed to acquire idempotence PID: retrying", False),
        ("CONFWARN", "Configuration property x is a consumer property", False),
    ],
)
def test_a_connection_that_broke_is_heard_of(facility: str, line: str, broke: bool) -> None:
    listener = Listener()
    listener.log(logging.INFO, "%s [%s] %s", facility, "rdkafka#producer-1", line)
    assert bool(listener.heard) is broke


@pytest.mark.parametrize(
    ("end", "broke"),
    [
        (" (_TRANSPORT)", False),  # The other end's, after a minute without traffic.
        (" (_TRANSPORT): identical to last error", False),
        (" (_TRANSPORT): identical to last error: error log suppressed", True),
    ],
)
def test_one_that_broke_like_the_one_before_is_heard_of(end: str, broke: bool) -> None:
    listener = Listener()
    line = f"{AT}Disconnected (after 70000ms in state UP){end}"
    listener.log(logging.DEBUG, "%s [%s] %s", "FAIL", "rdkafka#producer-1", line)
    assert bool(listener.heard) is broke


def test_only_producers_of_transactions_keep_the_brokers_they_knew() -> None:
    """Whoever stays in use must be able to bootstrap anew: see what the two functions say."""
    strategy = "metadata.recovery.strategy"
    assert strategy not in with_defaults({})
    assert strategy not in for_admin({})
    assert Listener().properties({})[strategy] == "none"
    assert Listener().properties({strategy: "rebootstrap"})[strategy] == "rebootstrap"


def test_a_client_that_cannot_be_closed_is_left_behind() -> None:
    closing, gone = threading.Event(), threading.Event()

    def close() -> None:
        closing.set()
        gone.wait(60)

    close_within(0.05, close)
    assert closing.is_set()
    left = [one for one in threading.enumerate() if one.name == "close"]
    assert [one.daemon for one in left] == [True], "the process may end"
    gone.set()
    left[0].join(10)
    close_within(60, gone.wait)  # Does not take so long.
