"""Charts as inline SVG: lines over time with labelled axes and a legend, from points that fit into memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

#: Colours that stay apart for most eyes, on white and in print.
COLOURS = ("#0b62a4", "#c2571a", "#3d7f2b", "#8a3f8f", "#8c6d1f", "#16808a", "#b0304f", "#555b66")
_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 16, 16, 46
_MINUTE_S, _HOUR_S = 60, 3_600


class Span(NamedTuple):
    """A stretch of time to be marked, in the units of the x axis."""

    begin: float
    end: float
    label: str


def draw_lines(
    series: Mapping[str, Sequence[tuple[float, float]]], y_label: str, *, spans: Sequence[Span] = (), log: bool = False
) -> str:
    """An SVG of lines over seconds since the beginning. `log` makes the y axis logarithmic where its values allow it."""
    points = [point for line in series.values() for point in line]
    if not points:
        return '<p class="none">Nothing to show.</p>'
    x_max = max(max(x for x, _ in points), *(span.end for span in spans), 1.0)
    positive = [y for _, y in points if y > 0]
    is_log = log and len(positive) == len(points) and max(positive) / min(positive) > 20
    low, high, ticks = (
        _scale_log(min(positive), max(positive)) if is_log else _scale(min(y for _, y in points), max(y for _, y in points))
    )

    def across(x: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * x / x_max

    def up(y: float) -> float:
        share = (math.log10(y) - math.log10(low)) / (math.log10(high) - math.log10(low)) if is_log else (y - low) / (high - low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(y_label)} over time">']
    for span in spans:
        x, width = across(span.begin), max(across(span.end) - across(span.begin), 2)
        box = f'x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{_HEIGHT - _TOP - _BOTTOM}"'
        parts.append(f'<rect class="span" {box}><title>{escape(span.label)}</title></rect>')
    parts += [_y_tick(up(tick), _number(tick)) for tick in ticks]
    step, unit = _time_step(x_max)
    parts += [_x_tick(across(number * step), _number(number * step / unit)) for number in range(int(x_max / step) + 1)]
    parts += [
        _line([(across(x), up(y)) for x, y in line], COLOURS[at % len(COLOURS)]) for at, line in enumerate(series.values())
    ]
    middle_x, middle_y = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2
    name = {1: "seconds", _MINUTE_S: "minutes", _HOUR_S: "hours"}[unit]
    parts.append(f'<text class="label" x="{middle_x}" y="{_HEIGHT - 8}" text-anchor="middle">{name} since the beginning</text>')
    turn = f'transform="rotate(-90 16 {middle_y})"'
    scale = ", logarithmic" if is_log else ""
    parts.append(f'<text class="label" x="16" y="{middle_y}" text-anchor="middle" {turn}>{escape(y_label)}{scale}</text>')
    return "".join(parts) + "</svg>" + _legend(list(series), bool(spans))


def _y_tick(y: float, label: str) -> str:
    line = f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _x_tick(x: float, label: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    line = f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>'
    return f'{line}<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{label}</text>'


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    if len(points) == 1:
        x, y = points[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>'


def _legend(names: list[str], has_spans: bool) -> str:
    entries = [
        f'<span><i style="background:{COLOURS[at % len(COLOURS)]}"></i>{escape(name)}</span>' for at, name in enumerate(names)
    ]
    if has_spans:
        entries.append('<span><i class="span"></i>the relay is replaced</span>')
    return f'<p class="legend">{"".join(entries)}</p>'


def _scale(low: float, high: float) -> tuple[float, float, list[float]]:
    """A scale with round ticks from zero, or from below it, to above the highest value."""
    low, high = min(low, 0.0), max(high, 0.0)
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step) or 1
    return first * step, last * step, [number * step for number in range(first, last + 1)]


def _scale_log(low: float, high: float) -> tuple[float, float, list[float]]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return 10.0**first, 10.0**last, [10.0**power for power in range(first, last + 1)]


def _time_step(x_max: float) -> tuple[float, int]:
    """The distance of two ticks in seconds, and the unit of their labels in seconds."""
    steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
    step = next((each for each in steps if x_max / each <= 12), x_max / 10)
    unit = 1 if x_max <= 3 * _MINUTE_S else _MINUTE_S if x_max <= 3 * _HOUR_S else _HOUR_S
    return max(step, 0.001), unit


def _number(value: float) -> str:
    """Short, without an exponent."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.4f}".rstrip("0").rstrip(".")
