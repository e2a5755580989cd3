"""The table at the end of the demo: what every member has delivered."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from relay_lab.drills.result import DrillResult
from relay_lab.drills.verdict import MemberVerdict


def demo_table(result: DrillResult) -> Table:
    """One row per member. The hashes of the order are equal within a site if its members delivered in the same order."""
    table = Table(title="What every member delivered", title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
    table.add_column("site")
    table.add_column("member")
    for name in ("sent", "delivered", "lost", "duplicated", "reordered", "gaps"):
        table.add_column(name, justify="right")
    table.add_column("order")
    for site in result.sites:
        for each in result.members:
            if each.site == site:
                table.add_row(*_cells(each))
        table.add_section()
    return table


def _cells(each: MemberVerdict) -> list[Text]:
    wrong = [_count(each.lost), _count(each.duplicated), _count(each.reordered), _count(each.gaps)]
    order = "killed" if each.crashed else each.order_hash[:8]
    return [Text(each.site), Text(each.title), Text(str(each.sent)), Text(str(each.delivered)), *wrong, Text(order)]


def _count(number: int) -> Text:
    return Text(str(number), style="bold red" if number else "green")
