"""Bars beside each other as inline SVG, for figures that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_WIDTH, _LEFT, _RIGHT = 860, 190, 110
_ROW, _BAR, _TITLE = 26, 16, 26


def draw_bars(values: Mapping[str, float], title: str) -> str:
    """An SVG with a bar for each value, from zero, with its name before and its figure behind it. Values are not negative."""
    if not values:
        return '<p class="note">Nothing to show.</p>'
    most = max(values.values()) or 1.0
    height = _TITLE + _ROW * len(values)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text x="{_LEFT}" y="16">{escape(title)}</text>')
    for number, (name, value) in enumerate(values.items()):
        top = _TITLE + _ROW * number
        width = (_WIDTH - _LEFT - _RIGHT) * value / most
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="bar" x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR}"/>')
        parts.append(f'<text x="{_LEFT + width + 8:.1f}" y="{top + 13}">{value:,.0f}</text>')
    return "".join(parts) + "</svg>"
