"""Errors of the site stack, split by the side that is at fault.

`LocalError`: the caller asked for something that cannot be done. `RemoteError`: bytes from outside make no sense; they are
counted and dropped at the border and never travel through a layer. A broken invariant of our own is an `assert`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SiteStackError(Exception):
    """Base of every error that this package raises on purpose."""


class LocalError(SiteStackError):
    """The caller asked for something that cannot be done."""


class ConfigurationError(LocalError):
    """A stack or a channel was configured in a way that cannot work; the text is one sentence a user understands."""


class MessageTooLarge(LocalError):
    """A payload is larger than `message_bytes_max`; nothing was sent."""


class ChannelClosed(LocalError):
    """The channel is closed, or this member has left; nothing was sent."""


class SlowConsumer(ChannelClosed):
    """The application took nothing for too long while its site waited for it, so this member has left."""


class JoinFailed(LocalError):
    """The site could not be joined within the configured time."""


class StateTooLarge(LocalError):
    """The state of the site is larger than `state_bytes_max`, so that this member cannot start with it."""


class StateUnavailable(LocalError):
    """The application that has the site's state failed to give it; a member that joins again asks again."""


class RemoteError(SiteStackError):
    """Bytes from outside make no sense."""


class ProtocolError(RemoteError):
    """Bytes that are not a valid datagram or frame. `reason` is a short stable word that drop counters use as their key."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise an error that is alone in its group without the group: that there is a nursery inside concerns no caller."""
    alone: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        alone = group.exceptions[0]
    if alone is not None:
        raise alone
