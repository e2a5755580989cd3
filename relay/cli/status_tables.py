from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from sitestack.model.printable import escaped


def status_tables(statuses: Sequence[dict[str, Any]], with_queues: bool = False) -> Iterator[Table]:
    """Yield tables of nodes, links, problems, used queues (optional), and dropped input.

    Markup and control characters in names from the network are shown literally. Raises
    AttributeError, LookupError, TypeError or ValueError for an invalid status.
    """
    if statuses:
        yield _nodes(statuses)
    links = [[_who(status), *_link(link)] for status in statuses for link in status.get("links", ())]
    if links:
        yield _table("Other sites", links, "node", "site", "link", "behind", "bytes", "oldest")
    reasons = [[_who(status), each["what"], each["alert"]] for status in statuses for each in status["verdict"]["reasons"]]
    if reasons:
        yield _table("Problems", reasons, "node", "what", "alert and section of the runbook")
    queues = [(status, queue) for status in statuses for queue in status.get("queues", ()) if queue["now"] or queue["high"]]
    if queues and with_queues:
        yield _queues(queues)
    drops = [(status, why, count) for status in statuses for why, count in status.get("drops", {}).items()]
    if drops:
        yield _table("Dropped", [[_who(status), why, count] for status, why, count in drops], "node", "reason", "times")


def _nodes(statuses: Sequence[dict[str, Any]]) -> Table:
    rows = []
    for status in statuses:
        messages = status.get("messages", {})
        delivered = sum(messages.get("delivered", {}).values())
        numbers = [messages.get("sent", 0), delivered, messages.get("gaps", 0)]
        states = [status["verdict"]["state"], status.get("state")]
        rows.append([_who(status), *states, _role(status), _view(status), _global_view(status), *numbers])
    columns = ("node", "verdict", "state", "role", "view", "global view", "sent", "delivered", "gaps")
    return _table("Nodes", rows, *columns)


def _queues(queues: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> Table:
    keys = ("queue", "now", "high", "max")
    rows = [[_who(status), *["" if each[key] is None else each[key] for key in keys]] for status, each in queues]
    return _table("Queues in use", rows, "node", "queue", "now", "highest", "bound")


def _link(link: dict[str, Any]) -> list[object]:
    state = "offline" if link.get("offline") else "down" if link["down"] else "linked" if link["linked"] else ""
    state = " ".join(filter(None, [state, "too slow" if link.get("slow") else "waited for" if link.get("waited_for") else ""]))
    return [link["site"], state, link["behind_entries"], link["behind_bytes"], f"{link['behind_s']:.1f} s"]


def _who(status: dict[str, Any]) -> str:
    return f"{status.get('name')}@{status.get('site')}"


def _role(status: dict[str, Any]) -> str:
    role, sites = str(status.get("role")), status.get("relays_to") or ()
    return f"{role} to {', '.join(sites)}" if sites else role


def _view(status: dict[str, Any]) -> str:
    view = status.get("view")
    return f"{view['id'][0]}: {_at(str(status.get('site')), view['members'])}" if view else "none"


def _global_view(status: dict[str, Any]) -> str:
    view = status.get("global_view")
    if not view:
        return "none"
    sites = [_at(site, names) for site, names in view["sites"].items() if names]
    return "; ".join([*sites, *[f"{site} is down" for site in view["down"]]])


def _at(site: str, names: Sequence[str]) -> str:
    return " ".join([f"{name}@{site}" for name in names])


def _table(title: str, rows: Sequence[Sequence[object]], *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        numeric = all(isinstance(row[place], int) for row in rows)
        # Fold wide cells instead of truncating them.
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(escaped(str(cell))) for cell in row])
    return table
