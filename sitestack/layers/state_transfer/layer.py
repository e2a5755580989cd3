"""State transfer: a joiner's application starts with the state of the others, as it is right before a
view.

provider      GiveState -------- shell: when its application comes to the view ------> StateGiven
joiner        StateRequest(from here on) ---unicast---> provider
provider      StateChunk(some bytes)     ---unicast---> joiner          ... until it has all:
StateArrived

The stream carries each member's standing, so at every view all members agree on the provider
(`holders.py`): the first in rank whose application has the state, in a merge view for each part of
its own. A transfer belongs to one view; if the view changes first, it restarts.

An application that fails to provide its state is asked again at the next view; the joiners are
notified at once (StateRefusal). If no member has the state, the first waiting member inherits: it
continues with its present state, which the others receive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sitestack.layers.state_transfer.headers import (
    READS_EXTRAS,
    Standing,
    Standings,
    StateChunk,
    StateRefusal,
    StateReport,
    StateRequest,
    StateStanding,
)
from sitestack.layers.state_transfer.holders import StateHolders
from sitestack.model.address import Address
from sitestack.model.events import Event, Unblocked, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.state_events import GiveState, StateArrived, StateAwaited, StateGiven, StateNotGiven, StateRefused
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up


@dataclass(frozen=True, slots=True)
class StateTransferConfig:
    """The bounds of the application's state on its way to a joiner; the same at all members."""

    #: Largest state, with its gaps; a larger one is refused. Message keys are added as far as there is room.
    #: The provider and each joiner hold that much in a transfer.
    state_bytes_max: int = 64 * 1024 * 1024
    #: Bytes in a piece of the state.
    chunk_bytes_max: int = 256 * 1024
    #: Time that a joiner waits for a piece before it asks again. The provider may take longer.
    ask_interval_s: float = 2.0


#: Maximum wait (s) for a piece.
WAIT_S_MAX = 60.0


class StateTransfer(Layer):
    """STATE_TRANSFER of JGroups, inside one site."""

    name: ClassVar[str] = "state_transfer"
    STATE = Standings
    HEADERS: ClassVar[dict[int, type[Header]]] = {
        0xA0: StateReport,
        0xA1: StateStanding,
        0xA2: Standings,
        0xA3: StateRequest,
        0xA4: StateChunk,
        0xA5: StateRefusal,
    }
    FRAMES_UP = "own"
    FRAMES_DOWN = "none"

    def __init__(self, local: Local, config: StateTransferConfig, *, takes_part: bool = False) -> None:
        """`takes_part`: the application provides its state and receives that of others."""
        self._me = local.address
        self._config = config
        self._takes_part = takes_part
        #: Whether the application has the state, or will have it at the end of its inbox.
        self._complete = False
        #: The standing that this member reports once it is complete.
        self._standing = Standing.HOLDS
        self._holders = StateHolders()
        self._view: View | None = None
        #: Whether this member decides alone: without a majority it can write nothing into the stream.
        self._is_alone = False
        #: Whether transfers have not begun, because the view was installed blocked.
        self._put_off = False
        #: At the provider: the state before this view, and the offsets of early requests.
        self._snapshot: bytes | None = None
        #: Bytes of extras in it, and the joiners that read them.
        self._extras_bytes = 0
        self._readers: set[Address] = set()
        self._note = b""
        self._failed = False
        self._asked: dict[Address, int] = {}
        #: At a joiner: the pieces, bounded by `state_bytes_max`, and when to ask again.
        self._pieces: list[bytes] = []
        self._arrived_bytes = 0
        self._ask_at: float | None = None
        #: Longer than a piece takes: requests for one under way would only delay the next piece.
        self._wait_s = config.ask_interval_s

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        return self._given(event) if isinstance(event, StateGiven) else [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.headers[-1] if event.headers else None
            match header:
                case StateChunk():
                    return self._chunk(event.source, header, now)
                case StateRefusal():
                    return self._refusal(event.source, header)
                case StateRequest():
                    return self._request(event.source, header)
                case StateReport():
                    return self._report(event.source, header.standing)
                case StateStanding():
                    return self._entry(header, now)
        elif isinstance(event, Unblocked):
            return [Up(event), *(self._begin(now) if self._put_off else [])]
        elif isinstance(event, ViewInstalled):
            return self._installed(event, now)
        return [Up(event)]

    def expire(self, now: float) -> list[Effect]:
        if self._ask_at is None or now < self._ask_at:
            return []
        self._ask_at = None
        if self._complete or not self._takes_part or self._holders.undecided or self._holders.provider_of(self._me) is None:
            return self._say_standing(now)
        self._wait_s = min(2 * self._wait_s, WAIT_S_MAX)
        return self._ask(now)

    def deadline(self) -> float | None:
        return self._ask_at

    def give_state(self) -> Header | None:
        """Return the members' standings at this point of the stream; None while none is known."""
        return Standings(self._holders.snapshot()) if self._holders else None

    def take_state(self, state: Header) -> None:
        assert isinstance(state, Standings)
        self._holders.restore(state.members)

    def merge_state(self, state: Header) -> None:
        """Add the standings of another part; the application merges the states."""
        assert isinstance(state, Standings)
        self._holders.merge(state.members)

    def _installed(self, event: ViewInstalled, now: float) -> list[Effect]:
        """Restart the transfers; in a blocked view not before `Unblocked`."""
        view = self._view = event.view
        self._is_alone = view.members == (self._me,)
        self._snapshot, self._asked, self._pieces, self._arrived_bytes, self._ask_at = None, {}, [], 0, None
        self._failed, self._readers, self._wait_s = False, set(), self._config.ask_interval_s
        self._holders.enter(view.members, [part.members for part in view.subviews], is_primary=view.is_primary)
        if self._complete and self._holders.get(self._me) is Standing.INHERITED:
            self._standing = Standing.INHERITED
        if not self._complete and (self._holders.undecided or self._holders.provider_of(self._me) not in (None, self._me)):
            self._standing = Standing.INHERITED  # unless a state arrives
        if self._is_alone and self._holders.undecided:
            self._holders.note(self._me, Standing.WAITS if self._takes_part else Standing.ABSTAINS)
        effects = self._inherit(view.id)
        self._put_off = event.blocked
        return effects if event.blocked else [*effects, *self._begin(now)]

    def _begin(self, now: float) -> list[Effect]:
        """Provide or request the state before this view."""
        assert self._view is not None
        self._put_off = False
        effects = self._say_standing(now)
        if self._may_give() and self._holders.waiting():
            effects.append(Up(GiveState(self._view.id)))
        elif self._takes_part and not self._complete and not self._holders.undecided:
            effects += [*self._await(), *self._ask(now)]
        return effects

    def _may_give(self) -> bool:
        return self._holders.is_provider(self._me) or (self._holders.undecided and self._complete)

    def _await(self) -> list[Effect]:
        provider = self._holders.provider_of(self._me)
        return [] if provider is None else [Up(StateAwaited(provider))]

    def _inherit(self, point: ViewId) -> list[Effect]:
        """Continue with this application's state, when no other member has one to ask for."""
        holders = self._holders
        is_first = self._is_alone or holders.provider_of(self._me) == self._me
        if not self._takes_part or self._complete or holders.undecided or not is_first:
            return []
        self._complete = True
        if self._is_alone:
            holders.note(self._me, self._standing)
        return [Up(StateArrived(point, None))]

    def _say_standing(self, now: float) -> list[Effect]:
        """Let the coordinator write this member's changed standing into the stream.

        It is sent again after `ask_interval_s` unless the stream has it: a blocked coordinator drops it.
        """
        assert self._view is not None
        if self._takes_part:
            mine = self._standing if self._complete else Standing.WAITS
        elif self._holders or self._holders.undecided:
            mine = Standing.ABSTAINS
        else:
            return []
        if self._holders.get(self._me) is mine and not self._holders.lacks(self._me):
            return []
        self._ask_at = now + self._config.ask_interval_s
        self.stale.add(self)
        if self._view.coordinator == self._me:
            return self._report(self._me, mine)
        return [Down(Frame(self._me, self._view.coordinator, (StateReport(mine),)))]

    def _report(self, member: Address, standing: Standing) -> list[Effect]:
        """Write a standing into the stream, as coordinator."""
        return [Down(Frame(self._me, None, (StateStanding(member, standing),)))]

    def _entry(self, entry: StateStanding, now: float) -> list[Effect]:
        holders = self._holders
        first, undecided = not holders.count, holders.undecided
        if not holders.note(entry.member, entry.standing):
            return [Dropped("state_of_a_stranger")]
        effects = self._decided(now) if undecided and not holders.undecided else []
        if holders.undecided and not undecided:
            effects += self._say_standing(now)
        if not holders.waiting() or (self._snapshot is not None and not self._may_give()):
            self._snapshot = None
        return [*effects, *(self._say_standing(now) if first and not self._takes_part else [])]

    def _decided(self, now: float) -> list[Effect]:
        assert self._view is not None
        if self._complete or not self._takes_part:
            return []
        if self._holders.provider_of(self._me) != self._me:
            return [*self._await(), *self._ask(now)]
        effects = self._inherit(self._view.id)
        return [*effects, Up(GiveState(self._view.id))] if self._holders.waiting() else effects

    def _given(self, state: StateGiven) -> list[Effect]:
        """Keep the application's state, and answer the joiners that already asked."""
        if self._view is None or state.point != self._view.id or not self._may_give():
            return [Dropped("state_of_an_old_view")]
        if not self._holders.waiting():  # every joiner has the state, or takes no part
            return []
        self._snapshot, self._note, self._failed = state.data, state.note, state.data is None
        self._extras_bytes = state.extras_bytes
        asked, self._asked = self._asked, {}
        return [effect for member, offset in asked.items() for effect in self._answer(member, offset)]

    def _request(self, member: Address, request: StateRequest) -> list[Effect]:
        view = self._view
        if (
            view is None
            or request.point != view.id
            or member not in view.members
            or self._holders.provider_of(member) != self._me
        ):
            return [Dropped("state_request_astray")]
        if request.offset_bytes == READS_EXTRAS:
            self._readers.add(member)
            return []
        return self._answer(member, request.offset_bytes)

    def _answer(self, member: Address, offset: int) -> list[Effect]:
        assert self._view is not None
        if self._failed:
            return [Dropped("state_not_given"), Down(Frame(self._me, member, (StateRefusal(self._view.id),)))]
        state = self._snapshot
        if state is None:
            self._asked[member] = offset
            return []
        start = 0 if member in self._readers else self._extras_bytes
        total = len(state) - start
        if not 0 <= offset <= total:
            return [Dropped("state_request_astray")]
        too_large = total > self._config.state_bytes_max
        data = b"" if too_large else state[start + offset : start + offset + self._config.chunk_bytes_max]
        is_last = not too_large and offset + len(data) == total
        chunk = StateChunk(self._view.id, offset, total, data, self._note if is_last else b"")
        dropped: list[Effect] = [Dropped("state_too_large")] if too_large else []
        return [*dropped, Down(Frame(self._me, member, (chunk,)))]

    def _ask(self, now: float) -> list[Effect]:
        provider = self._holders.provider_of(self._me)
        if self._view is None or provider is None:
            return []
        self._ask_at = now + self._wait_s
        self.stale.add(self)
        offsets = (self._arrived_bytes,) if self._arrived_bytes else (READS_EXTRAS, 0)
        return [Down(Frame(self._me, provider, (StateRequest(self._view.id, each),))) for each in offsets]

    def _chunk(self, source: Address, chunk: StateChunk, now: float) -> list[Effect]:
        """Append the next piece and ask for the one after it."""
        view = self._view
        if view is None or self._complete or source != self._holders.provider_of(self._me) or chunk.point != view.id:
            return [Dropped("state_chunk_astray")]
        if chunk.offset_bytes != self._arrived_bytes:
            return [Dropped("state_chunk_again")]
        arrived = self._arrived_bytes + len(chunk.data)
        if chunk.total_bytes > self._config.state_bytes_max:
            self._ask_at = None
            return [Up(StateRefused(chunk.total_bytes, self._config.state_bytes_max))]
        if arrived > chunk.total_bytes or (not chunk.data and arrived < chunk.total_bytes):
            return [Dropped("state_chunk_astray")]
        self._pieces.append(chunk.data)
        self._arrived_bytes = arrived
        if arrived < chunk.total_bytes:
            return self._ask(now)
        state = b"".join(self._pieces)
        self._pieces, self._arrived_bytes, self._ask_at = [], 0, None
        self._complete = True
        self._standing = Standing.INHERITED if self._holders.get(source) is Standing.INHERITED else Standing.HOLDS
        return [Up(StateArrived(view.id, state, chunk.note)), *self._say_standing(now)]

    def _refusal(self, source: Address, refusal: StateRefusal) -> list[Effect]:
        view = self._view
        if view is None or self._complete or source != self._holders.provider_of(self._me) or refusal.point != view.id:
            return [Dropped("state_chunk_astray")]
        self._ask_at = None
        return [Up(StateNotGiven(source))]

    def levels(self) -> dict[str, Level]:
        bound, snapshot = self._config.state_bytes_max, self._snapshot
        return {
            "waiting": Level.of(len(self._holders.waiting()) if self._holders else 0, None),
            "snapshot_bytes": Level.of(0 if snapshot is None else len(snapshot), bound),
            "arrived_bytes": Level.of(self._arrived_bytes, bound),
        }
