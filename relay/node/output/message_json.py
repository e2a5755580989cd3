"""Messages and gaps as JSON objects, for programs in any language (`relay sub`, `/events`)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.gap import Gap


def message_objects(delivery: Delivery) -> Iterator[dict[str, Any]]:
    """An object for each message: its sender, its id, its text or else its bytes in base64, and its key if it has one.

    Raises ProtocolError when the sender encoded the batch wrongly.
    """
    batch = delivery.batch
    about = {"from": delivery.sender.partition("@")[0], "site": batch.site}
    key = {"key": batch.key.decode("latin-1")} if batch.key else {}
    for number, payload in enumerate(delivery.payloads(), batch.first):
        identity = [batch.site, batch.origin.hex(), batch.scope.name.lower(), number]
        yield {**about, "id": identity, **key, **_said(payload)}


def gap_object(gap: Gap) -> dict[str, Any]:
    """Which messages will not come, and why."""
    lost = {"site": gap.site, "origin": gap.origin.hex(), "scope": gap.scope.name.lower(), "first": gap.first, "last": gap.last}
    return {"gap": lost, "reason": gap.reason.value}


def malformed_object(delivery: Delivery) -> dict[str, Any]:
    """Which messages cannot be read because their sender encoded them wrongly, as a gap."""
    batch = delivery.batch
    lost = {
        "site": batch.site,
        "origin": batch.origin.hex(),
        "scope": batch.scope.name.lower(),
        "first": batch.first,
        "last": batch.last,
    }
    return {"gap": lost, "reason": "malformed"}


def _said(payload: bytes) -> dict[str, str]:
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(payload).decode()}
