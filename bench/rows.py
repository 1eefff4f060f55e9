"""All rows of the table, and which of them the targets compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.bare import Work
from bench.client import Client
from bench.kafka_streams import FASTEST_GRACE_MS, KafkaStreams
from bench.quix_streams import QuixStreams
from bench.spanjoin import Spanjoin

if TYPE_CHECKING:
    from bench.systems import System

CLIENT: Final = Client(Work.PRODUCE)
ONE: Final = Spanjoin(1)
TWO: Final = Spanjoin(2)
STREAMS_ONE: Final = KafkaStreams(1)
STREAMS_TWO: Final = KafkaStreams(2)
FASTEST_ONE: Final = KafkaStreams(1, FASTEST_GRACE_MS)
FASTEST_TWO: Final = KafkaStreams(2, FASTEST_GRACE_MS)
QUIX: Final = QuixStreams()

SYSTEMS: Final[tuple[System, ...]] = (
    Client(Work.CONSUME),
    Client(Work.DECODE),
    CLIENT,
    ONE,
    TWO,
    STREAMS_ONE,
    STREAMS_TWO,
    FASTEST_ONE,
    FASTEST_TWO,
    QUIX,
)
