"""A line plot as SVG, on logarithmic axes: enough to see how cost grows with size, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 980, 520
LEFT, RIGHT, TOP, BOTTOM = 80, 340, 50, 60
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f")

Points = Sequence[tuple[float, float]]


def svg_plot(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """Return an SVG of the lines, by their names. Both axes are logarithmic; values must be above 0."""
    points = [point for line in lines.values() for point in line]
    if not points or any(value <= 0 for point in points for value in point):
        raise ValueError("a plot needs points, all of them above 0")
    across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 28, title, size=16),
        *(_grid_line(at, TOP, at, HEIGHT - BOTTOM) for at, _ in across.ticks()),
        *(_text(at, HEIGHT - BOTTOM + 18, label, anchor="middle") for at, label in across.ticks()),
        *(_grid_line(LEFT, at, WIDTH - RIGHT, at) for at, _ in up.ticks()),
        *(_text(LEFT - 8, at + 4, label, anchor="end") for at, label in up.ticks()),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, x_label, anchor="middle"),
        f'<g transform="rotate(-90)">{_text(-HEIGHT / 2, 20, y_label, anchor="middle")}</g>',
    ]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        dash = ' stroke-dasharray="5 4"' if number >= len(COLOURS) else ""
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        height = TOP + 18 * number
        parts.append(f'<rect x="{WIDTH - RIGHT + 16}" y="{height - 4}" width="14" height="4" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 36, height + 3, name))
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """One logarithmic axis: from a value to its place, and the powers of ten on it."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values)) + 1e-9)
        self._high = max(math.ceil(math.log10(max(values)) - 1e-9), self._low + 1)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """Return where a value stands."""
        part = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + part * (self._end - self._start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the place and the label of every power of ten."""
        powers = [10.0**power for power in range(self._low, self._high + 1)]
        return [(self.at(value), f"{value:,g}" if value >= 1e-3 else f"{value:.0e}") for value in powers]


def _grid_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
