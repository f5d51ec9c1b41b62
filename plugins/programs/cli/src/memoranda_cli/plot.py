"""Line plots as SVG: enough to see how cost grows with size, or recall with depth, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from memoranda.errors import InputError
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.files import whole_file
from memoranda_commands.terminal import say

COLUMNS = 3
PANEL_WIDTH, PANEL_HEIGHT = 330, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 46
HEAD = 74
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")

Points = Sequence[tuple[float, float]]


def check_plot(plot: Path) -> None:
    """Refuse a name that a plot cannot have, before anything is measured."""
    if plot.suffix.lower() != ".svg":
        raise InputError(f"A plot is SVG: name it {plot.with_suffix('.svg').name}, not {plot.name}.", field="plot")
    if not plot.parent.is_dir():
        raise CommandError(f"There is no folder {str(plot.parent)!r} to write to.", ExitCode.NOT_FOUND)


def write_plot(plot: Path, drawn: str) -> None:
    """Write a plot, and say where it is."""
    with whole_file(plot) as output:
        output.write(drawn)
    say(f"The plot is in {plot}.")


def svg_plot(
    title: str, x_label: str, y_label: str, panels: Mapping[str, Mapping[str, Points]], *, shares: bool = False
) -> str:
    """Return an SVG with a panel for each name, and in it a line for each name of its own.

    Lines of one name have one colour in all panels; one whose name ends with an asterisk is dashed. All axes are
    logarithmic, so values must be above 0; there must be some. With ``shares``, values up are between 0 and 1 on a
    linear axis, and each value across has its own tick.
    """
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    if not points or any(x <= 0 or (y <= 0 and not shares) for x, y in points):
        raise ValueError("a plot needs points, all of them above 0")
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    solid = list(dict.fromkeys(name.rstrip("*") for name in names))
    colours = {name: COLOURS[solid.index(name.rstrip("*")) % len(COLOURS)] for name in names}
    columns = min(COLUMNS, len(panels))
    width = max(columns * PANEL_WIDTH, 640)
    height = HEAD + math.ceil(len(panels) / columns) * PANEL_HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(16, 26, title, size=17),
        _text(16, height - 10, f"across: {x_label}; up: {y_label}", size=11),
        *_legend(colours),
    ]
    made = _ValueAxis if shares else _Axis
    across = made([x for x, _ in points], LEFT, PANEL_WIDTH - RIGHT)
    for number, (name, lines) in enumerate(panels.items()):
        x, y = number % columns * PANEL_WIDTH, HEAD + number // columns * PANEL_HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_panel(name, lines, colours, across, shares=shares), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _legend(colours: Mapping[str, str]) -> list[str]:
    parts, at = [], 16
    for name, colour in colours.items():
        parts.append(_path(f"{at},46 {at + 24},46", colour, dashed=name.endswith("*")))
        parts.append(_text(at + 30, 50, name.rstrip("*") + (" by hand" if name.endswith("*") else "")))
        at += 50 + 7 * len(name) + (50 if name.endswith("*") else 0)
    return parts


def _panel(
    name: str, lines: Mapping[str, Points], colours: Mapping[str, str], across: _Axis, *, shares: bool
) -> list[str]:
    heights = [y for line in lines.values() for _, y in line]
    up = (_ShareAxis if shares else _Axis)(heights, PANEL_HEIGHT - BOTTOM, TOP)
    parts = [_text(LEFT, 20, name, size=13)]
    for at, label in across.ticks():
        parts.append(_path(f"{at:.1f},{TOP} {at:.1f},{PANEL_HEIGHT - BOTTOM}", "#ddd", thin=True))
        parts.append(_text(at, PANEL_HEIGHT - BOTTOM + 16, label, anchor="middle", size=10))
    for at, label in up.ticks():
        parts.append(_path(f"{LEFT},{at:.1f} {PANEL_WIDTH - RIGHT},{at:.1f}", "#ddd", thin=True))
        parts.append(_text(LEFT - 6, at + 4, label, anchor="end", size=10))
    for line_name, line in lines.items():
        places = [(across.at(x), up.at(y)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(_path(path, colours[line_name], dashed=line_name.endswith("*")))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[line_name]}"/>' for x, y in places]
    return parts


class _Axis:
    """One logarithmic axis: from a value to its place, and the powers of ten on it."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low: float = math.floor(math.log10(min(values)) + 1e-9)
        self._high: float = max(math.ceil(math.log10(max(values)) - 1e-9), self._low + 1)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        part = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + part * (self._end - self._start)

    def ticks(self) -> list[tuple[float, str]]:
        powers = [10.0**power for power in range(int(self._low), int(self._high) + 1)]
        return [(self.at(value), _label(value)) for value in powers]


class _ValueAxis(_Axis):
    """A logarithmic axis from the first value to the last, with a tick at each."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        super().__init__(values, start, end)
        self._values = sorted(set(values))
        self._low, self._high = math.log10(self._values[0]), math.log10(self._values[-1])
        if self._low == self._high:
            self._high += 1

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.at(value), _label(value)) for value in self._values]


class _ShareAxis(_Axis):
    """A linear axis from 0 to 1, whatever the values are."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        super().__init__([1.0], start, end)

    def at(self, value: float) -> float:
        return self._start + value * (self._end - self._start)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.at(fifths / 5), f"{fifths / 5:g}") for fifths in range(6)]


def _label(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):,.0f}{letter}"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _path(points: str, colour: str, *, dashed: bool = False, thin: bool = False) -> str:
    style = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{1 if thin else 2}"{style}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
