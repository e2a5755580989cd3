"""Deliveries and events as JSON objects: `--events`, `relay sub` and `GET /events`."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from relay.events import GlobalView, Role, SiteSwitched, Unreachable
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.envelope import KEY, NO_ENVELOPE, Envelope
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event
from sitestack.model.gap import Gap
from sitestack.model.message import Batch
from sitestack.model.printable import escaped
from sitestack.model.view import View

#: Maximum characters of a message that people are shown.
SHOWN_MAX = 1_000


class EventLines:
    """Maker of lines for a member of `site`: JSON, or for people if `readable`. `clock` returns seconds since 1970."""

    def __init__(self, site: str, clock: Callable[[], float] = time.time, *, readable: bool = False) -> None:
        self._site = site
        self._clock = clock
        self._to_line = to_readable if readable else to_line

    def lines(self, item: Delivery | View | Event) -> list[str]:
        """Return the lines of one item; events that programs do not receive have none."""
        return [self._to_line(each) for each in event_objects(item, self._site, self._clock())]

    def lost(self, count: int, why: str) -> list[str]:
        return [self._to_line({"event": "gap", "gap": {"events": count}, "reason": why})]


def event_objects(item: Delivery | View | Event, site: str, heard_at: float) -> Iterator[dict[str, Any]]:
    """Yield the objects of one item that arrived at `heard_at` (seconds since 1970)."""
    for kind, about in _describe(item, site):
        yield {"event": kind, "time": round(heard_at, 3), **about}


def sites_of(view: GlobalView) -> dict[str, list[str]]:
    sites: dict[str, list[str]] = {site: [] for site in view.components}
    for member, name in zip(view.members, view.names, strict=True):
        sites.setdefault(member.site, []).append(name)
    return sites


def to_line(about: dict[str, Any]) -> str:
    """Return an object on one line. JSON has no raw line ends (C25)."""
    return json.dumps(about, separators=(",", ":"))


def to_readable(about: dict[str, Any]) -> str:
    """Return an object as a line for people, such as `A@NYC: hello`, without control characters."""
    if about["event"] == "message":
        text = about.get("text") or about.get("base64", "")
        return escaped(f"{about['from']}@{about['site']}: {text[:SHOWN_MAX]}")
    return f"-- {to_line({name: each for name, each in about.items() if name != 'time'})}"


def to_server_sent(number: str, about: dict[str, Any]) -> bytes:
    """Return an object as a server-sent event with the id `number`."""
    return f"event: {about['event']}\nid: {number}\ndata: {to_line(about)}\n\n".encode()


def _describe(item: Delivery | View | Event, site: str) -> Iterator[tuple[str, dict[str, Any]]]:
    match item:
        case Delivery():
            yield from _messages(item)
        case View():
            about = {"site": site, "view": [item.id.creator.hex(), item.id.counter], "members": list(item.names)}
            shared = {"shared_names": list(item.shared_names)} if item.shared_names else {}
            yield "view", {**about, "merged": bool(item.subviews), **shared}
        case GlobalView():
            yield "global_view", {"sites": sites_of(item), "down": list(item.down)}
        case Role():
            yield "role", {"role": item.duty.value, "relays_to": list(item.sites)}
        case SiteSwitched():
            yield "site_switched", {"site": item.site, "offline": item.is_offline}
        case Gap():
            yield "gap", _gap(item, item.first, item.last, item.reason.value)
        case Unreachable():
            target = [item.target.site, item.target.original.hex()]
            why = {"reason": item.reason.value, "certainty": item.certainty.value}
            yield "unreachable", {"target": target, "first": item.first, "last": item.last, **why}


def _messages(delivery: Delivery) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each message with sender, id, and any key and headers. The body is text, or else base64."""
    batch = delivery.batch
    try:
        opened = list(batch.opened()) if batch.has_envelopes else [(NO_ENVELOPE, each) for each in batch.payloads()]
    except ProtocolError:
        yield from [("gap", _gap(batch, number, number, "malformed")) for number in range(batch.first, batch.last + 1)]
        return
    about = {"from": delivery.sender.partition("@")[0], "site": batch.site}
    for number, (envelope, payload) in enumerate(opened, batch.first):
        identity = [batch.site, batch.origin.hex(), batch.scope.name.lower(), number]
        key = {"key": envelope.key.decode("latin-1")} if envelope.key else {}
        yield "message", {**about, "id": identity, **key, **_headers(envelope), **_text_or_base64(payload)}


def _headers(envelope: Envelope) -> dict[str, dict[str, str]]:
    headers = {name: base64.b64encode(value).decode() for name, value in envelope.headers.items() if name != KEY}
    return {"headers": headers} if headers else {}


def _gap(of: Gap | Batch, first: int, last: int, reason: str) -> dict[str, Any]:
    lost = {"site": of.site, "origin": of.origin.hex(), "scope": of.scope.name.lower(), "first": first, "last": last}
    return {"gap": lost, "reason": reason}


def _text_or_base64(payload: bytes) -> dict[str, str]:
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(payload).decode()}
