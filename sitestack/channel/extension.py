"""Extensions: what a package above adds to a channel, handed over at construction, so that neither knows the other's inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sitestack.model.events import Event


@dataclass(frozen=True, slots=True)
class Extension:
    """The additions for a channel whose stack has layers, and so events, of another package."""

    #: Handlers by type of event or effect, called at its place among the others of its turn. None of them waits.
    handlers: Mapping[type[Event], Callable[[Any], None]] = field(default_factory=dict)
    #: The events that the application is shown, at their place among the deliveries.
    shown: frozenset[type[Event]] = frozenset()
    #: A context that is entered before this process becomes a member and left after it.
    around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
