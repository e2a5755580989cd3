"""What a node hears, as the events of `/events`: a kind and a JSON object each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from relay.events import GlobalView, Role, SiteSwitched, Unreachable
from relay.node.output.message_json import gap_object, message_objects
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.events import Event
from sitestack.model.gap import Gap
from sitestack.model.view import View

#: The kinds of events, each with the name of its description in `/openapi.json`.
KINDS = {
    "message": "Message",
    "view": "View",
    "global_view": "GlobalView",
    "role": "Role",
    "site_switched": "SiteSwitched",
    "gap": "Gap",
    "unreachable": "Unreachable",
}


def kinds_and_objects(item: Delivery | View | Event, site: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of one item that a member of `site` hears; one for each message of a delivery.

    Raises ProtocolError when the sender of a delivery encoded it wrongly.
    """
    match item:
        case Delivery():
            for message in message_objects(item):
                yield "message", message
        case View():
            vid = [item.id.creator.hex(), item.id.counter]
            yield "view", {"site": site, "view": vid, "members": list(item.names), "merged": bool(item.subviews)}
        case GlobalView():
            yield "global_view", {"sites": sites_of(item), "down": list(item.down)}
        case Role():
            yield "role", {"role": item.duty.value, "relays_to": list(item.sites)}
        case SiteSwitched():
            yield "site_switched", {"site": item.site, "offline": item.is_offline}
        case Gap():
            yield "gap", gap_object(item)
        case Unreachable():
            target = [item.target.site, item.target.original.hex()]
            about = {"reason": item.reason.value, "certainty": item.certainty.value}
            yield "unreachable", {"target": target, "first": item.first, "last": item.last, **about}


def sites_of(view: GlobalView) -> dict[str, list[str]]:
    """The names of the members of each living site; the first of each coordinates it, the second is next."""
    sites: dict[str, list[str]] = {site: [] for site in view.components}
    for member, name in zip(view.members, view.names, strict=True):
        sites.setdefault(member.site, []).append(name)
    return sites


def encode(kind: str, number: str, about: dict[str, Any]) -> bytes:
    """One event as a stream carries it. JSON has no raw line ends, so one line holds it (C25)."""
    return f"event: {kind}\nid: {number}\ndata: {json.dumps(about, separators=(',', ':'))}\n\n".encode()
