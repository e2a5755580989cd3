"""The HTML page and its parts. Arguments are plain text, which is escaped; results are markup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import TypeAlias

from relay_lab.report.style import STYLE


class Figure(str):
    """A formatted number, right-aligned in a table."""

    __slots__ = ()


Cell: TypeAlias = str | int | float | None


def draw_page(title: str, body: Iterable[str]) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    parts = "\n".join(part for part in body if part)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{parts}\n</body></html>\n'


def draw_verdict(passed: bool, told: str, failed: str = "FAIL") -> str:
    kind, name = ("pass", "PASS") if passed else ("fail", failed)
    return f'<div class="verdict {kind}"><b>{escape(name)}</b> {escape(told)}</div>'


def draw_tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Return tiles for key figures, given as pairs of name and value."""
    tiles = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures)
    return f'<div class="tiles">{tiles}</div>'


def draw_note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def draw_table(titles: Sequence[str], rows: Sequence[Sequence[Cell]], harmed: Collection[int] = ()) -> str:
    """Return a table; the rows at the indices `harmed` are highlighted."""
    figures = {at for row in rows for at, cell in enumerate(row) if isinstance(cell, int | float | Figure)}
    kinds = [' class="n"' if at in figures else "" for at in range(len(titles))]
    head = "".join(f"<th{kind}>{escape(title)}</th>" for kind, title in zip(kinds, titles, strict=True))
    body = []
    for number, row in enumerate(rows):
        cells = "".join(f"<td{kind}>{_write(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        kind = ' class="harm"' if number in harmed else ""
        body.append(f"<tr{kind}>{cells}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _write(cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case float():
            return f"{cell:,.1f}"
        case int():
            return f"{cell:,}"
    return escape(cell)
