"""Bars beside each other as inline SVG, for figures that are compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape

_WIDTH, _LEFT, _RIGHT = 860, 220, 110
_ROW, _BAR, _TITLE = 26, 16, 26


def draw_bars(values: Mapping[str, float], title: str, others: Collection[str] = ()) -> str:
    """An SVG with a bar for each value, from zero, with its name before and its figure behind it. Values are not negative.

    Those of `others` have another colour.
    """
    if not values:
        return '<p class="note">Nothing to show.</p>'
    most = max(values.values()) or 1.0
    height = _TITLE + _ROW * len(values)
    parts = [f'<div class="wide"><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text x="{_LEFT}" y="16">{escape(title)}</text>')
    for number, (name, value) in enumerate(values.items()):
        top = _TITLE + _ROW * number
        width = (_WIDTH - _LEFT - _RIGHT) * value / most
        kind = "bar other" if name in others else "bar"
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR}"/>')
        parts.append(f'<text x="{_LEFT + width + 8:.1f}" y="{top + 13}">{_number(value)}</text>')
    return "".join(parts) + "</svg></div>"


def _number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
