"""Whether a node is ready: its status shows a view and, if it coordinates its site, all its links.

A node that answers at all is alive, ready or not: restarting a node because a far site is lost helps nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The roles of a site's coordinator.
_COORDINATING = ("coord", "relay")


def why_not_ready(status: Mapping[str, Any], peers: Sequence[str], members: int = 0) -> list[str]:
    """The reasons why a node is not ready; none when it is.

    `peers` are the sites that it is configured to be linked to. `members` is how many members the global view must have.
    """
    reasons = []
    if status["state"] != "member":
        reasons.append(f"the node is {status['state']}")
    if not status["view"]:
        reasons.append("the node has no view")
    if status["role"] in _COORDINATING:
        linked = {link["site"]: link["linked"] or link.get("offline") for link in status["links"]}
        reasons += [f"there is no link to {site}" for site in peers if not linked.get(site)]
    view = status["global_view"]
    seen = sum(len(names) for names in view["sites"].values()) if view else 0
    if seen < members:
        reasons.append(f"the global view has {seen} of {members} members")
    return reasons
