"""The chart of a drill as inline SVG: deliveries per second in each site over time, with the harm and the silence. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from relay.instruments.drills.rates import Rates
from relay.instruments.drills.result import SilentTime

#: They stay apart for most eyes, on white and in print.
_COLOURS = ("#0b62a4", "#c2571a", "#3d7f2b", "#8a3f8f")
_WIDTH, _HEIGHT = 900, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 40
#: Peaks beyond so many times the usual rate are cut off: a replay would make everything else flat.
_PEAK_MAX = 3.0
#: Numbers of marks that are closer than this would run into each other.
_APART = 16
#: When, and what was done.
Mark = tuple[float, str]


def draw_site(rates: Rates, site: str, marks: Sequence[Mark], silence: SilentTime | None, usual: float) -> str:
    """What one member of a site delivers, a line for each site that sends. `usual` is the rate of one sender."""
    rows = {sender: row for (receiver, sender), row in rates.rows.items() if receiver == site}
    steps = max((len(row) for row in rows.values()), default=1)
    begin, end = rates.begin_s, rates.begin_s + steps * rates.step_s
    top = _ceiling(min(max((max(row, default=0.0) for row in rows.values()), default=1.0), usual * _PEAK_MAX))

    def across(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (seconds - begin) / (end - begin)

    def up(rate: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(rate / top, 1.0)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="deliveries per second in {escape(site)}">']
    if silence is not None:
        parts.append(_span(across(silence.begin_s), across(silence.end_s)))
    parts += [_y_tick(up(tick), f"{tick:,.0f}") for tick in (0.0, top / 2, top)]
    step = _step(end - begin)
    parts += [_x_tick(across(tick * step), f"{tick * step:g}") for tick in range(math.ceil(begin / step), int(end / step) + 1)]
    for place, row in enumerate(rows.values()):
        points = " ".join(f"{across(begin + (at + 0.5) * rates.step_s):.1f},{up(rate):.1f}" for at, rate in enumerate(row))
        parts.append(f'<polyline points="{points}" stroke="{_COLOURS[place % len(_COLOURS)]}"/>')
    parts += _marks([(across(at_s), what) for at_s, what in marks if begin <= at_s <= end])
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">seconds since the load began</text>'
    )
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">messages / s</text>')
    return "".join(parts) + "</svg>" + _legend(site, list(rows), silence is not None)


def _marks(marks: Sequence[tuple[float, str]]) -> Iterator[str]:
    """A line for each harm with its number, the key to the time line; what comes close together shares one."""
    last = -math.inf
    for number, (x, what) in enumerate(marks, 1):
        place = f'class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{_HEIGHT - _BOTTOM}"'
        label = f'<text class="mark" x="{x:.1f}" y="{_TOP - 12}" text-anchor="middle">{number}</text>'
        yield f"<line {place}><title>{escape(what)}</title></line>{label if x - last >= _APART else ''}"
        last = x if x - last >= _APART else last


def _span(left: float, right: float) -> str:
    width, height = max(right - left, 2), _HEIGHT - _TOP - _BOTTOM
    return f'<rect class="silence" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"/>'


def _y_tick(y: float, label: str) -> str:
    line = f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _x_tick(x: float, label: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    line = f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
    return f'{line}<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{label}</text>'


def _legend(site: str, senders: Sequence[str], silent: bool) -> str:
    entries = []
    for place, sender in enumerate(senders):
        told = f"from {escape(sender)}{', its own' if sender == site else ''}"
        entries.append(f'<span><i style="background:{_COLOURS[place % len(_COLOURS)]}"></i>{told}</span>')
    if silent:
        entries.append('<span><i class="silence"></i>the longest silence</span>')
    return f'<p class="legend">{"".join(entries)}</p>'


def _ceiling(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 4, 6, 8, 10) if power * factor >= value)


def _step(seconds: float) -> float:
    """The distance of two ticks."""
    return next((each for each in (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0) if seconds / each <= 15), seconds / 10)
