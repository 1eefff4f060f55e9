"""A curve as a small picture: SVG by hand, for there is little to draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Place = Callable[[float], float]

WIDTH: Final = 480
HEIGHT: Final = 240
LEFT: Final = 56
RIGHT: Final = 16
TOP: Final = 34
BOTTOM: Final = 44
COLOURS: Final = ("#1f6feb", "#d1570a", "#2e8540")
INK: Final = "#57606a"
STEPS: Final = 4
POINTS_MAX: Final = 30
"""A line of more points is only a line."""
_NAMESPACE: Final = "http://www.w3.org/2000/svg"


@dataclass(frozen=True)
class Line:
    """(x, y, least y, greatest y) of the points; the last two may be y.

    One that is not joined is only its points.
    """

    name: str
    points: Sequence[tuple[float, float, float, float]]
    joined: bool = True


@dataclass(frozen=True)
class Axis:
    """What is along it, and whether its steps are factors."""

    title: str
    factors: bool = False


def draw(title: str, along: Axis, up: Axis, lines: Sequence[Line]) -> str:
    """The picture's text."""
    xs = sorted({x for line in lines for x, *_ in line.points})
    top = max(high for line in lines for *_, high in line.points)
    bottom = 0.0
    if up.factors:
        bottom = min(low for line in lines for *_, low, _ in line.points)
    else:
        top = _round_above(top)

    def at_x(x: float) -> float:
        return LEFT + _share(x, xs[0], xs[-1], along.factors) * (WIDTH - LEFT - RIGHT)

    def at_y(y: float) -> float:
        return HEIGHT - BOTTOM - _share(y, bottom, top, up.factors) * (HEIGHT - TOP - BOTTOM)

    parts = [
        (
            f'<svg xmlns="{_NAMESPACE}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 16, title, "start", "#1f2328", 13),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, along.title, "middle"),
        _text(LEFT, 29, up.title, "start"),
    ]
    for number in range(STEPS + 1):
        y = _between(bottom, top, number / STEPS, up.factors)
        parts += [
            f'<path d="M{LEFT} {at_y(y):.1f}H{WIDTH - RIGHT}" stroke="#d8dee4"/>',
            _text(LEFT - 6, at_y(y) + 4, _number(y), "end"),
        ]
    for x in xs if len(xs) <= 2 * STEPS else (xs[0], xs[len(xs) // 2], xs[-1]):
        parts.append(_text(at_x(x), HEIGHT - BOTTOM + 16, _number(x), "middle"))
    for line, colour in zip(lines, COLOURS, strict=False):
        parts += _line(line, colour, at_x, at_y)
    if len(lines) > 1:
        for number, (line, colour) in enumerate(zip(lines, COLOURS, strict=False)):
            parts.append(_text(WIDTH - RIGHT, 16 + 13 * number, line.name, "end", colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(line: Line, colour: str, at_x: Place, at_y: Place) -> list[str]:
    parts = []
    if line.joined:
        path = "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y, *_ in line.points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for x, y, low, high in line.points:
        if high > low:
            whisker = f"M{at_x(x):.1f} {at_y(low):.1f}V{at_y(high):.1f}"
            parts.append(f'<path d="{whisker}" stroke="{colour}"/>')
        if len(line.points) <= POINTS_MAX or not line.joined:
            at = f'cx="{at_x(x):.1f}" cy="{at_y(y):.1f}"'
            parts.append(f'<circle {at} r="3" fill="{colour}"/>')
    return parts


def _share(value: float, low: float, high: float, factors: bool) -> float:  # noqa: FBT001
    if factors:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5


def _between(low: float, high: float, share: float, factors: bool) -> float:  # noqa: FBT001
    if factors:
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)


def _round_above(value: float) -> float:
    """The next number of which every step is a round one."""
    unit = 10.0 ** math.floor(math.log10(value))
    steps = (1.0, 1.2, 1.6, 2.0, 4.0, 6.0, 8.0, 10.0)
    return next(step * unit for step in steps if step * unit >= value)


def _text(x: float, y: float, text: str, anchor: str, colour: str = INK, size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:,.3g} k" if value < 1_000_000 else f"{value / 1_000_000:,.3g} M"
    return f"{value:.3g}"
