"""Reports as one HTML file that needs nothing else: a page, its tables and tiles, and charts as inline SVG. Pure."""

from relay.instruments.report.chart import Mark, Span, draw_lines
from relay.instruments.report.page import Cell, Figure, draw_note, draw_page, draw_table, draw_tiles, draw_verdict

__all__ = [
    "Cell",
    "Figure",
    "Mark",
    "Span",
    "draw_lines",
    "draw_note",
    "draw_page",
    "draw_table",
    "draw_tiles",
    "draw_verdict",
]
