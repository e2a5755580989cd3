"""Charts as inline SVG: lines over time with axes and a legend, and bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from relay_lab.report.style import COLOURS

_WIDTH, _HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 16, 26, 46
_MINUTE_S, _HOUR_S = 60, 3_600
#: Minimum ratio of the largest to the smallest value for a logarithmic axis.
_LOG_RATIO_MIN = 20
#: Minimum distance (pixels) between the numbers of two marks; closer ones would overlap.
_APART = 16
#: Layout of bars (pixels): left and right margin, row height, bar height.
_BAR_LEFT, _BAR_RIGHT, _BAR_ROW, _BAR_HEIGHT = 220, 110, 26, 16


class Span(NamedTuple):
    """A shaded interval in a chart, in seconds."""

    begin: float
    end: float
    label: str


class Mark(NamedTuple):
    """A numbered moment in a chart, in seconds."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    ticks: Sequence[float]
    begin: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the pixel of a value, clamped to the scale."""
        low, high, here = map(math.log10, (self.low, self.high, value)) if self.is_log else (self.low, self.high, value)
        return self.begin + (self.end - self.begin) * min(max((here - low) / (high - low), 0.0), 1.0)


def draw_lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    y_label: str,
    *,
    since: str = "the beginning",
    spans: Sequence[Span] = (),
    spans_are: str = "",
    marks: Sequence[Mark] = (),
    log: bool = False,
    y_max: float = math.inf,
    until: float = 0.0,
) -> str:
    """Return an SVG of lines over time in seconds. `spans_are` is the legend of the spans.

    The time axis begins at the first point or span. It ends at the last one, not before `until`.
    `log` requests a logarithmic y axis, used where the values allow it. Values above `y_max` are
    drawn at the upper edge.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        return '<p class="note">Nothing to show.</p>'
    begin = min([*(x for x, _ in points), *(each.begin for each in spans)])
    x_axis, unit = _time_axis(begin, max(begin + 1.0, until, *(x for x, _ in points), *(each.end for each in spans)))
    y_axis = _value_axis([min(y, y_max) for _, y in points], log)
    across, up = x_axis.place, y_axis.place
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(y_label)} over time">']
    parts += [_span(across(each.begin), across(each.end), each.label) for each in spans]
    parts += [_y_tick(up(tick), _number(tick)) for tick in y_axis.ticks]
    parts += [_x_tick(across(tick), _number(tick / unit)) for tick in x_axis.ticks]
    parts += [_line([(across(x), up(y)) for x, y in line], at) for at, line in enumerate(series.values())]
    parts += _marks([each for each in marks if x_axis.low <= each.at <= x_axis.high], across)
    middle_x, middle_y = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2
    name = {1: "seconds", _MINUTE_S: "minutes", _HOUR_S: "hours"}[unit]
    parts.append(f'<text x="{middle_x}" y="{_HEIGHT - 8}" text-anchor="middle">{name} since {escape(since)}</text>')
    turn = f'transform="rotate(-90 16 {middle_y})"'
    scale = ", logarithmic" if y_axis.is_log else ""
    parts.append(f'<text x="16" y="{middle_y}" text-anchor="middle" {turn}>{escape(y_label)}{scale}</text>')
    return "".join(parts) + "</svg>" + _legend(list(series), spans_are if spans else "")


def draw_bars(values: Mapping[str, float], title: str, others: Collection[str] = ()) -> str:
    """Return an SVG with a labelled bar from zero for each value.

    Values must not be negative. Bars named in `others` have another colour.
    """
    if not values:
        return '<p class="note">Nothing to show.</p>'
    most = max(values.values()) or 1.0
    height = _TOP + _BAR_ROW * len(values)
    parts = [f'<div class="wide"><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text x="{_BAR_LEFT}" y="16">{escape(title)}</text>')
    for number, (name, value) in enumerate(values.items()):
        top = _TOP + _BAR_ROW * number
        width = (_WIDTH - _BAR_LEFT - _BAR_RIGHT) * value / most
        kind = "bar other" if name in others else "bar"
        parts.append(f'<text x="{_BAR_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="{kind}" x="{_BAR_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT}"/>')
        parts.append(f'<text x="{_BAR_LEFT + width + 8:.1f}" y="{top + 13}">{_three_digits(value)}</text>')
    return "".join(parts) + "</svg></div>"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _span(left: float, right: float, label: str) -> str:
    box = f'x="{left:.1f}" y="{_TOP}" width="{max(right - left, 2):.1f}" height="{_HEIGHT - _TOP - _BOTTOM}"'
    return f'<rect class="span" {box}><title>{escape(label)}</title></rect>'


def _marks(marks: Sequence[Mark], across: Callable[[float], float]) -> Iterator[str]:
    last = -math.inf
    for number, mark in enumerate(marks, 1):
        x = across(mark.at)
        place = f'class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{_HEIGHT - _BOTTOM}"'
        label = f'<text class="mark" x="{x:.1f}" y="{_TOP - 10}" text-anchor="middle">{number}</text>'
        yield f"<line {place}><title>{escape(mark.label)}</title></line>{label if x - last >= _APART else ''}"
        last = x if x - last >= _APART else last


def _y_tick(y: float, label: str) -> str:
    line = f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _x_tick(x: float, label: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    line = f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>'
    return f'{line}<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{label}</text>'


def _line(points: Sequence[tuple[float, float]], number: int) -> str:
    colour = f"line-{number % COLOURS}"
    if len(points) == 1:
        x, y = points[0]
        return f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="line {colour}" points="{path}"/>'


def _legend(names: list[str], spans_are: str) -> str:
    entries = [f'<span><i class="line-{at % COLOURS}"></i>{escape(name)}</span>' for at, name in enumerate(names)]
    if spans_are:
        entries.append(f'<span><i class="span"></i>{escape(spans_are)}</span>')
    return f'<p class="legend">{"".join(entries)}</p>'


def _value_axis(values: Sequence[float], log: bool) -> _Axis:
    bottom, top = _HEIGHT - _BOTTOM, _TOP
    if log and min(values) > 0 and max(values) / min(values) > _LOG_RATIO_MIN:
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return _Axis(10.0**first, 10.0**last, [10.0**power for power in range(first, last + 1)], bottom, top, True)
    low, high = min(*values, 0.0), max(*values, 0.0)
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step) or 1
    return _Axis(first * step, last * step, [number * step for number in range(first, last + 1)], bottom, top)


def _time_axis(begin: float, end: float) -> tuple[_Axis, int]:
    steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
    length = end - begin
    step = max(next((each for each in steps if length / each <= 12), length / 10), 0.001)
    unit = 1 if length <= 3 * _MINUTE_S else _MINUTE_S if length <= 3 * _HOUR_S else _HOUR_S
    ticks = [number * step for number in range(math.ceil(begin / step), math.floor(end / step) + 1)]
    return _Axis(begin, end, ticks, _LEFT, _WIDTH - _RIGHT), unit


def _number(value: float) -> str:
    """Format a number as a short label without an exponent."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.4f}".rstrip("0").rstrip(".")
