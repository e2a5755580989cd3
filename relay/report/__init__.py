"""Reports as one self-contained HTML file with tables, tiles and inline SVG charts. Pure."""

from relay.report.chart import Mark as Mark, Span as Span, draw_bars as draw_bars, draw_lines as draw_lines
from relay.report.page import (
    Cell as Cell,
    Figure as Figure,
    draw_note as draw_note,
    draw_page as draw_page,
    draw_table as draw_table,
    draw_tiles as draw_tiles,
    draw_verdict as draw_verdict,
)
