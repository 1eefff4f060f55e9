"""The lane of a key is what Java's clients choose; the values are of Kafka's own tests."""

import pytest

from schemas.partition import PARTITIONERS, lane_of, murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_partitioners_by_name() -> None:
    assert [PARTITIONERS["murmur2"](b"21") % lanes for lanes in (1, 4)] == [0, lane_of(b"21", 4)]
    assert PARTITIONERS["crc32"](b"123456789") == 0xCBF43926
    assert PARTITIONERS["fnv1a"](b"") == 2**32 - 0x811C9DC5


def test_lane() -> None:
    assert lane_of(b"abc", 7) == 479470107 % 7
    assert lane_of(b"21", 4) == (-973932308 % 2**32 & 0x7FFFFFFF) % 4
    assert lane_of(b"", 1) == 0
