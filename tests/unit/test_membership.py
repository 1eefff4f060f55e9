"""Metadata that proves no membership must never reach the broker: it would be taken unchecked."""

import struct

import pytest

from app.kafka.membership import read_membership


def metadata(generation: int, member: str) -> bytes:
    return b"CGMDv2:" + struct.pack("=i", generation) + b"group\0" + member.encode() + b"\0\1"


def test_a_member_is_read() -> None:
    found = read_membership(metadata(3, "m-1"))
    assert (found.generation, found.member, found.valid) == (3, "m-1", True)


@pytest.mark.parametrize(
    "raw", [metadata(-1, ""), metadata(-1, "m-1"), metadata(3, ""), b"", b"CGMDv2:", None, "text"]
)
def test_no_membership_is_refused(raw: object) -> None:
    assert not read_membership(raw).valid


def test_the_client_before_it_joined_has_none() -> None:
    from confluent_kafka import Consumer  # noqa: PLC0415 - only this test needs the client

    consumer = Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    try:
        assert not read_membership(consumer.consumer_group_metadata()).valid
    finally:
        consumer.close()
