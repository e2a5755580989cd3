"""Places for connections that have not shown who they are: a few, each for a short time, so that strangers keep nobody out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from sitestack.model.level import Level


class Pending:
    """The connections at one listener whose other end has not shown yet who it is."""

    def __init__(self, places_max: int) -> None:
        self._places_max = places_max
        #: The oldest first.
        self._scopes: dict[trio.CancelScope, None] = {}
        #: Connections closed because nothing was shown, something wrong, or because of too many others.
        self.unproven = 0

    @contextmanager
    def place(self, timeout_s: float) -> Iterator[None]:
        """Hold a place for the block, which is cancelled after that time, and when it is the oldest and one more comes."""
        if len(self._scopes) == self._places_max:
            oldest = next(iter(self._scopes))
            del self._scopes[oldest]
            oldest.cancel()
        with trio.move_on_after(timeout_s) as scope:
            self._scopes[scope] = None
            try:
                yield
            finally:
                self._scopes.pop(scope, None)

    def level(self) -> Level:
        """How many there are."""
        return Level.of(len(self._scopes), self._places_max)
