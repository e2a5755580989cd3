"""The types that iterating a channel yields: a `match` needs no default, and a type checker tells which one is left out."""

from __future__ import annotations

from typing import TypeAlias

from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.gap import Gap
from sitestack.model.message import Message
from sitestack.model.view import View

#: The items of `async for event in channel`, in one site.
Event: TypeAlias = Message | View | Gap
#: The items of `Channel.batches`.
BatchEvent: TypeAlias = Delivery | View | Gap
