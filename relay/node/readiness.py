"""Whether a node is ready, out of its status: it is in a view, and when it relays it has its links.

Alive is another matter: a node that answers at all is alive, and restarting one because a site far away is lost helps nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The roles of the member that answers for its site.
_COORDINATING = ("coord", "relay")


def why_not_ready(status: Mapping[str, Any], peers: Sequence[str], members: int = 0) -> list[str]:
    """What keeps a node from being ready, in sentences; nothing when it is.

    `peers` are the sites that it is configured to be linked to. `members` is how many members the global view must have.
    """
    reasons = []
    if status["state"] != "member":
        reasons.append(f"the node is {status['state']}")
    if not status["view"]:
        reasons.append("the node has no view")
    if status["role"] in _COORDINATING:
        linked = {link["site"]: link["linked"] for link in status["links"]}
        reasons += [f"there is no link to {site}" for site in peers if not linked.get(site)]
    view = status["global_view"]
    seen = sum(len(names) for names in view["sites"].values()) if view else 0
    if seen < members:
        reasons.append(f"the global view has {seen} of {members} members")
    return reasons
