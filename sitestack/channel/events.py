"""What iterating a channel yields, as types: a `match` needs no default, and a type checker says what it leaves out."""

from __future__ import annotations

from typing import TypeAlias

from sitestack.channel.inbox import Delivery
from sitestack.model.message import Message
from sitestack.model.view import View

#: What `async for event in channel` yields in one site.
Event: TypeAlias = Message | View
#: The same a batch at a time: what `Channel.batches` yields.
BatchEvent: TypeAlias = Delivery | View
