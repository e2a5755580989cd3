"""The locks of a site as a replicated state machine, fed by the totally ordered stream alone.

A token is larger than all earlier ones of the site. Those of a view begin at its members' clocks
(microseconds since 1970), so tokens also grow over a restart of all members, unless clocks go back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError

#: Maximum requests, of holders and waiters, in all locks of a site; further ones are refused.
REQUESTS_MAX = 4_096


class Claimant(NamedTuple):
    """A request for a lock: its member, and the member's number for it."""

    member: Address
    number: int


@dataclass(slots=True)
class _Lock:
    token: int
    #: The holder, then the waiters, in the order of their requests.
    queue: list[Claimant] = field(default_factory=list)


class LockTable:
    """All locks with a holder. Bound: `REQUESTS_MAX`."""

    def __init__(self) -> None:
        self.last_token = 0
        #: When it was last agreed on, by the clocks of a view (us); larger than for all agreements before it.
        self.agreed_us = 0
        self._locks: dict[str, _Lock] = {}

    @property
    def count(self) -> int:
        return sum(len(lock.queue) for lock in self._locks.values())

    def holder(self, name: str) -> tuple[Claimant, int] | None:
        """Return the holder of a lock and its token, or None."""
        lock = self._locks.get(name)
        return None if lock is None else (lock.queue[0], lock.token)

    def requests_of(self, member: Address) -> list[tuple[str, int]]:
        """Return the lock and the number of each request of a member."""
        return [(name, each.number) for name, lock in self._locks.items() for each in lock.queue if each.member == member]

    def request(self, name: str, claimant: Claimant) -> bool:
        """Let a member hold the lock or wait for it; return False at the bound."""
        lock = self._locks.get(name)
        if lock is not None and claimant in lock.queue:
            return True  # sent again after a view change
        if self.count >= REQUESTS_MAX:
            return False
        if lock is None:
            lock = self._locks[name] = _Lock(self._next_token())
        lock.queue.append(claimant)
        return True

    def release(self, name: str, member: Address, number: int) -> None:
        """End a request of a holder or a waiter; the next waiter holds the lock."""
        lock = self._locks.get(name)
        if lock is not None:
            self._keep(name, lock, [each for each in lock.queue if each != (member, number)])

    def retain(self, members: Collection[Address]) -> None:
        for name, lock in list(self._locks.items()):
            self._keep(name, lock, [each for each in lock.queue if each.member in members])

    def _keep(self, name: str, lock: _Lock, queue: list[Claimant]) -> None:
        if not queue:
            del self._locks[name]
        elif queue[0] != lock.queue[0]:
            lock.token = self._next_token()
        lock.queue = queue

    def _next_token(self) -> int:
        self.last_token += 1
        return self.last_token

    def snapshot(self) -> list[Any]:
        locks = [[name, lock.token, [list(each) for each in lock.queue]] for name, lock in self._locks.items()]
        return [self.agreed_us, self.last_token, locks]

    @classmethod
    def restore(cls, data: Any) -> LockTable:
        """Return the table of a snapshot. Raises ProtocolError."""
        table = cls()
        try:
            agreed_us, last_token, locks = data
            for name, token, queue in locks:
                claimants = [Claimant(Address(member), int(number)) for member, number in queue]
                if type(name) is not str or not claimants:
                    raise ProtocolError("lock_table")
                table._locks[name] = _Lock(int(token), claimants)
            table.agreed_us, table.last_token = int(agreed_us), int(last_token)
        except (TypeError, ValueError, OverflowError) as error:
            raise ProtocolError("lock_table") from error
        if table.count > REQUESTS_MAX * 2:
            raise ProtocolError("lock_table")
        return table
