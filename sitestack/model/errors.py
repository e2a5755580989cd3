"""Errors of the site stack.

`LocalError`: the caller asked for something impossible. `RemoteError`: bytes from outside make no
sense; they are counted and dropped at the border. A broken internal invariant is an `assert`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SiteStackError(Exception):
    """Base of every error that this package raises on purpose."""


class LocalError(SiteStackError):
    """The caller asked for something impossible."""


class ConfigurationError(LocalError):
    """A stack or a channel has an unusable configuration; the text is one sentence for the user."""


class NoNetwork(ConfigurationError):
    """This machine has no such address or route; it may have one later."""


class MessageTooLarge(LocalError):
    """A payload is larger than `message_bytes_max`; nothing was sent."""


class ChannelClosed(LocalError):
    """The channel is closed, or this member has left; nothing was sent."""


class NoMajority(LocalError):
    """This part of a split site lacks the majority (`when_split: majority`); nothing was sent."""


class SlowConsumer(ChannelClosed):
    """This member has left: its application did not read for too long while the site waited."""


class JoinFailed(LocalError):
    """The site could not be joined within the configured time."""


class Unwritten(LocalError):
    """A strict journal cannot be written now."""


class StateTooLarge(LocalError):
    """The site's state is larger than `state_bytes_max`, so this member cannot start with it."""


class StateUnavailable(LocalError):
    """The application with the site's state failed to provide it; joining again asks again."""


class RemoteError(SiteStackError):
    """Bytes from outside make no sense."""


class ProtocolError(RemoteError):
    """Bytes that are not a valid datagram or frame.

    `reason` is a short stable key of drop counters.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise an error that is alone in its group without the group, to hide a nursery."""
    alone: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        alone = group.exceptions[0]
    if alone is not None:
        raise alone
