"""The verdict on a node and the sites that it knows: healthy, degraded or down, with the reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_COORDINATING = ("coord", "relay")
#: Lag (seconds) of another site that degrades, as in the alert RelayLagGrows.
LAG_S_MAX = 5.0
#: Fraction of the budget in use that degrades, as in the alert RelayBudgetFilling.
BUDGET_MAX = 0.7


def judge(status: Mapping[str, Any], peers: Sequence[str]) -> dict[str, Any]:
    """Return the verdict as JSON: `state` and `reasons`.

    Each reason has a sentence (`what`), its alert or an empty one, and whether the node is not
    ready because of it (`blocks`).
    """
    down = [_reason(what, blocks=True) for what in _why_down(status)]
    reasons = [*down, *_why_degraded(status, peers)]
    return {"state": "down" if down else "degraded" if reasons else "healthy", "reasons": reasons}


def why_not_ready(status: Mapping[str, Any], members: int) -> list[str]:
    """Return why a node is not ready: no view, a coordinator without a link, or a smaller global view."""
    reasons = [each["what"] for each in status["verdict"]["reasons"] if each["blocks"]]
    seen = sum(len(names) for names in _sites(status).values())
    return [*reasons, f"the global view has {seen} of {members} members"] if seen < members else reasons


def _reason(what: str, alert: str = "", *, blocks: bool = False) -> dict[str, Any]:
    return {"what": what, "alert": alert, "blocks": blocks}


def _why_down(status: Mapping[str, Any]) -> Iterator[str]:
    if status["state"] != "member":
        yield f"the node is {status['state']}"
    if not status["view"]:
        yield "the node has no view"


def _why_degraded(status: Mapping[str, Any], peers: Sequence[str]) -> Iterator[dict[str, Any]]:
    links = {link["site"]: link for link in status["links"]}
    if status["role"] in _COORDINATING:
        for site in peers:
            if not (link := links.get(site)) or not (link["linked"] or link.get("offline")):
                yield _reason(f"there is no link to {site}", "RelayLinkDown", blocks=True)
    for site in (status["global_view"] or {}).get("down", ()):
        if not links.get(site, {}).get("offline"):
            yield _reason(f"{site} is not reached", "RelayLinkDown")
    for site, names in _sites(status).items():
        if len(names) == 1:
            yield _reason(f"{site} has no next in line: it goes down if {names[0]} stops", "RelayDegraded")
    for site, link in links.items():
        if link.get("offline"):
            continue
        if link.get("behind_s", 0) > LAG_S_MAX:
            yield _reason(f"{site} is {link['behind_s']:.0f} s behind", "RelayLagGrows")
        if link.get("waited_for"):
            yield _reason(f"senders wait for {site}", "RelaySendersWait")
        elif link.get("slow"):
            yield _reason(f"{site} is too slow: messages beyond the budget become gaps", "RelaySiteSlow")
    for queue in status.get("queues", ()):
        name = queue["queue"].removeprefix("stack.relay.buffer_")
        if name in ("bytes", "entries") and queue["now"] > BUDGET_MAX * queue["max"]:
            yield _reason(f"{queue['now'] / queue['max']:.0%} of the budget for other sites is in use", "RelayBudgetFilling")
    for problem in status.get("problems", ()):
        yield _reason(problem.removesuffix("."), "RelayProblems")


def _sites(status: Mapping[str, Any]) -> dict[str, list[str]]:
    sites: dict[str, list[str]] = (status["global_view"] or {}).get("sites", {})
    return sites
