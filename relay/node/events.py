"""Types of what a channel across sites yields: the events of its own site, and events about the other sites."""

from __future__ import annotations

from typing import TypeAlias

from relay.events import GlobalView, SiteSwitched, Unreachable
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.gap import Gap
from sitestack.model.message import Message
from sitestack.model.view import View

#: What a channel across sites yields besides what it yields in one site.
BetweenSites: TypeAlias = GlobalView | SiteSwitched | Unreachable
#: What `async for event in channel` yields.
Event: TypeAlias = Message | View | Gap | GlobalView | SiteSwitched | Unreachable
#: The same a batch at a time: what `Channel.batches` yields.
BatchEvent: TypeAlias = Delivery | View | Gap | GlobalView | SiteSwitched | Unreachable
