"""The joiners as the leader sees them: offered, waiting for a view, or put off. A helper of membership."""

from __future__ import annotations

from collections.abc import Collection

from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.headers import JoinOffer, JoinRequest
from sitestack.model.address import Address
from sitestack.model.events import Unreached
from sitestack.model.frame import Frame, Header
from sitestack.model.rate_limit import RateLimit
from sitestack.stack.layer import Down, Dropped, Effect, Up


class Entrance:
    """Lets a joiner wait for a view only when it has shown that it hears the leader."""

    def __init__(self, me: Address, vain: Backoff, joiners_max: int, told_interval_s: float) -> None:
        """`vain` are joins that have stopped all members in vain: they are put off.

        A joiner that does not answer is reported to the operator at most once in `told_interval_s` seconds.
        """
        self.waiting: dict[Address, str] = {}
        #: What each of them knows.
        self._known: dict[Address, tuple[Header, ...]] = {}
        self._me = me
        self._vain = vain
        self._joiners_max = joiners_max
        #: Joiners that were sent a `JoinOffer` and have not answered; beyond `joiners_max` the oldest is forgotten.
        self._offered: dict[Address, None] = {}
        self._told = RateLimit(told_interval_s, joiners_max)

    def ask(self, joiner: Address, request: JoinRequest, now: float) -> list[Effect]:
        """Take a request to join; afterwards the joiner is `waiting`, or is sent an offer, or its request is dropped."""
        if self._vain.waits(joiner, now):
            return [Dropped("join_too_soon")]
        if joiner not in self.waiting and len(self.waiting) >= self._joiners_max:
            return [Dropped("joiners")]
        again = joiner in self._offered
        self._offered.pop(joiner, None)
        if request.hears:
            self.waiting[joiner] = request.name
            self._known[joiner] = request.known
            return []
        self._offered[joiner] = None
        if len(self._offered) > self._joiners_max:
            del self._offered[next(iter(self._offered))]
        # A joiner that asks again without `hears` has not heard the last offer.
        told = again and self._told.allow(joiner, now)
        offer = Down(Frame(self._me, joiner, (JoinOffer(),)))
        return [offer, Up(Unreached((joiner,), (request.name,), "join"))] if told else [offer]

    def known(self) -> tuple[Header, ...]:
        """What each of those that wait knows, one after the other; empty if one of them knows nothing."""
        each = [self._known[joiner] for joiner in self.waiting]
        return tuple([header for headers in each for header in headers]) if all(each) else ()

    def discard(self, members: Collection[Address]) -> None:
        """Stop waiting for joiners that are members now, are dead, or did not answer."""
        self.waiting = {joiner: name for joiner, name in self.waiting.items() if joiner not in members}
        self._known = {joiner: known for joiner, known in self._known.items() if joiner in self.waiting}
