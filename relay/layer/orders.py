"""Orders: what an operator, or a configuration that is read again, wants of a member that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay.events import Budget, Peers, SwitchSite
from relay.gateway.gateway import Gateway
from relay.layer.handover import Taker
from relay.replica.buffer import ON_THEIR_WAY_BYTES, Buffer
from sitestack.model.events import Event
from sitestack.stack.layer import Effect


def order_handlers(gateway: Gateway, buffer: Buffer, taker: Taker) -> dict[type[Event], Callable[[Any, float], list[Effect]]]:
    """The handlers of orders, which come from the shell."""

    def change_budget(event: Budget, now: float) -> list[Effect]:
        buffer.change_budget(event.entries, event.bytes)
        taker.bytes.bound = event.bytes + ON_THEIR_WAY_BYTES
        return []

    def change_peers(event: Peers, now: float) -> list[Effect]:
        return gateway.change_peers(event.places, now)

    def switch_site(event: SwitchSite, now: float) -> list[Effect]:
        return gateway.switch(event.site, event.is_offline, now)

    return {Budget: change_budget, Peers: change_peers, SwitchSite: switch_site}
