"""Client of nodes over HTTP, without membership: publish, and follow events.

    with Client(["http://10.0.0.1:7800", "http://10.0.0.2:7800"]) as client:
        client.publish(b"paid", key="order-4711")
        for event in client.events():
            print(event.kind, event.payload)

`Client` needs the standard library only. `AsyncClient` is the same for asyncio and trio, and needs
httpx (`pip install 'sitestack[client]'`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay.client.client import Client
from relay.client.exchange import Event, NotPublished, Outgoing, Published, Refused

if TYPE_CHECKING:
    from relay.client.async_client import AsyncClient

__all__ = ["AsyncClient", "Client", "Event", "NotPublished", "Outgoing", "Published", "Refused"]


def __getattr__(name: str) -> Any:
    if name != "AsyncClient":
        raise AttributeError(f"module 'relay.client' has no attribute {name!r}")
    from relay.client.async_client import AsyncClient  # noqa: PLC0415  # httpx takes long to import

    return AsyncClient
