"""What a client's log says of its connections; the lines are librdkafka's own."""

from __future__ import annotations

import logging

import pytest

from app.kafka.clients import Listener

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
