"""What a package above adds to a channel: handed over when it is made, so that neither needs to know the other's inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sitestack.model.events import Event


def _nothing(hand_in: Callable[[Event], None]) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Extension:
    """Of a channel whose stack has layers, and so events, of another package."""

    #: What is done about an event or an effect of this type, at its place among the others of its turn. None of them waits.
    handlers: Mapping[type[Event], Callable[[Any], None]] = field(default_factory=dict)
    #: Which events the application is shown, at their place among the deliveries.
    shown: frozenset[type[Event]] = frozenset()
    #: Entered before this process becomes a member and left when it is one no more. Given is what takes events for the stack.
    around: Callable[[Callable[[Event], None]], AbstractAsyncContextManager[None]] = _nothing
