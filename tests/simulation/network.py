"""Requests on their way to the broker and answers on their way back, and what happens to them.

A request is carried out once at most, at the moment it arrives. A client whose connection breaks
does not know whether that was the case; what it does then is its own affair (`Broken`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tests.simulation.world import current

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import Process, World

T = TypeVar("T")

RETRY_S: Final = 0.02


class Refused(Exception):
    """The broker's answer is an error code."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class Broken(Exception):
    """The connection broke before the answer came."""


class TimedOut(Exception):
    """The call's own time is up."""


class Flight(Generic[T]):
    """One request: carried out when it arrives, which may be after its sender has died."""

    def __init__(self, request: Callable[[], T]) -> None:
        self._request = request
        self._answer: list[T] = []
        self._refusal: Refused | None = None

    @property
    def landed(self) -> bool:
        """Whether the broker has carried it out."""
        return bool(self._answer) or self._refusal is not None

    def land(self) -> None:
        """Arrive; the second time is none."""
        if not self.landed:
            try:
                self._answer.append(self._request())
            except Refused as refusal:
                self._refusal = refusal

    def outcome(self) -> str:
        """What the broker made of it, for people."""
        return "done" if self._refusal is None else f"refused with {self._refusal.code}"

    def answer(self) -> T:
        """What the broker said."""
        if self._refusal is not None:
            raise self._refusal
        return self._answer[0]


@dataclass
class Weather:
    """How often things go wrong on the way; all zero in good times."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    late_end: float = 0.0
    """EndTxn whose first copy arrives after the client has sent a second one."""
    lose_end: float = 0.0
    """EndTxn whose outcome its sender never learns."""
    away_until: float = 0.0
    """The broker does not answer before."""

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        self.lose_request = self.lose_answer = 0.0
        self.late_end = self.lose_end = self.away_until = 0.0


def _nothing(_process: Process) -> None:
    return None


class Network:
    """Carries requests of all clients."""

    def __init__(self, world: World, weather: Weather) -> None:
        self.world = world
        self.weather = weather
        self.late = 0
        """Copies of EndTxn that are still on their way."""
        self.lost_as_revoked = 0.0
        """Share of losses that the client tells as revocations, which it has been known to do."""
        self.on_late_end: Callable[[Process], None] = _nothing
        """Told of whose transaction a late EndTxn has ended."""

    def send(self, label: str, request: Callable[[], T], deadline: float) -> T:
        """One try. Raises Refused, Broken, TimedOut."""
        world, weather = self.world, self.weather
        task = current()
        flight = Flight(request)
        task.flight = flight
        try:
            world.step(f"{label} sent")
            while not flight.landed and weather.away_until > world.now:
                if world.now >= deadline:
                    raise TimedOut
                world.sleep(min(weather.away_until, deadline) - world.now + 0.001)
            if weather.lose_request and world.random.random() < weather.lose_request:
                world.note(f"{task.process.name}: {label} is lost")
                raise Broken
            flight.land()
        finally:
            task.flight = None
        world.step(f"{label} answered")
        if weather.lose_answer and world.random.random() < weather.lose_answer:
            world.note(f"{task.process.name}: {label}: the answer is lost")
            raise Broken
        return flight.answer()

    def ask(
        self,
        label: str,
        request: Callable[[], T],
        deadline: float,
        again: frozenset[int] = frozenset(),
        on_broken: Callable[[], None] = lambda: None,
    ) -> T:
        """Try until there is an answer that is none of `again`. Raises Refused, TimedOut.

        For what may be carried out twice, and for what the broker does not carry out twice.
        `on_broken` is told of each connection that broke meanwhile.
        """
        world = self.world
        while True:
            try:
                return self.send(label, request, deadline)
            except Refused as refused:
                if refused.code not in again:
                    raise
            except Broken:
                on_broken()
            if world.now >= deadline:
                raise TimedOut
            world.sleep(RETRY_S * (0.5 + world.random.random()))
