"""Short ids: the coordinator assigns the members numbers of two bytes, which replace uuids on the wire
(LA-21 to LA-23).

After "IDs instead of UUIDs" of JGroups' design on logical addresses. In each view the coordinator
multicasts one table of all members. Members write ids once the table is stable.

A successor continues above the highest assigned id, which is part of a joiner's state. In a merge
all members get new ids, above those of all parts. Beyond 65,535 a new epoch begins, with ids from
1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import Event, Stable, Unblocked, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.short_ids import ID_MAX, ShortIds
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Layer, LearnIds, Local, Up, WriteIds

#: The highest epoch that travels.
EPOCH_MAX = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class IdTable(Header):
    """Coordinator to all members, once a view: their short ids, and the highest one assigned."""

    epoch: int
    highest: int
    ids: dict[Address, int]

    def is_sound(self) -> bool:
        """Return whether each id is in range, and assigned once."""
        given = self.ids.values()
        fits = 0 <= self.epoch <= EPOCH_MAX and 0 <= self.highest <= ID_MAX
        return fits and len(set(given)) == len(given) and all(0 < number <= self.highest for number in given)


@dataclass(frozen=True, slots=True)
class IdsGiven(Header):
    """For a joiner or another part: the highest short id assigned, and its epoch."""

    epoch: int
    highest: int

    def is_sound(self) -> bool:
        return 0 <= self.epoch <= EPOCH_MAX and 0 <= self.highest <= ID_MAX


@dataclass(frozen=True, slots=True)
class ShortIdsConfig:
    """Short ids on the wire in place of uuids."""

    #: Whether this member writes short ids, and assigns them while it coordinates. All members must run a
    #: version that reads them. Single small messages save bytes and cost time; full batches gain nothing.
    enabled: bool = False


class ShortIdsLayer(Layer):
    """ID of JGroups' design (LA-21 to LA-23). The codec writes the ids."""

    name = "short_ids"
    STATE = IdsGiven
    HEADERS: ClassVar[dict[int, type[Header]]] = {0xD0: IdTable, 0xD1: IdsGiven}
    FRAMES_UP = "own"
    FRAMES_DOWN = "none"

    def __init__(self, local: Local, config: ShortIdsConfig) -> None:
        self._me = local.address
        self._config = config
        self._view: View | None = None
        #: The last epoch, and the highest id assigned in it.
        self._given = (0, 0)
        self._ids: dict[Address, int] = {}
        #: The table of the view in force, and its number in the stream.
        self._table: tuple[ShortIds, int] | None = None
        self._writes = False

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            table = event.top(IdTable)
            return [Up(event)] if table is None else self._take(table, event)
        if isinstance(event, Stable):
            return [*self._write(event), Up(event)]
        if isinstance(event, ViewInstalled):
            return self._install(event)
        if isinstance(event, Unblocked):
            return self._give()
        return [Up(event)]

    def give_state(self) -> Header | None:
        """Return the assigned ids for a joiner, which may coordinate the next view."""
        return IdsGiven(*self._given) if self._given != (0, 0) else None

    def take_state(self, state: Header) -> None:
        assert isinstance(state, IdsGiven)
        self._given = (state.epoch, state.highest)

    def merge_state(self, state: Header) -> None:
        """Reserve the other part's ids; `_install` numbers all members again."""
        assert isinstance(state, IdsGiven)
        self._given = max(self._given, (state.epoch, state.highest))

    def levels(self) -> dict[str, Level]:
        return {"highest_id": Level.of(self._given[1], ID_MAX, "ids are given once; beyond the bound the next epoch begins")}

    def _install(self, event: ViewInstalled) -> list[Effect]:
        """Write uuids again: members of the new view may not know the old table."""
        effects: list[Effect] = [WriteIds(None)] if self._writes else []
        self._view, self._table, self._writes = event.view, None, False
        if event.view.subviews:
            self._ids = {}
        return effects if event.blocked else [*effects, *self._give()]

    def _give(self) -> list[Effect]:
        view = self._view
        if not self._config.enabled or view is None or view.coordinator != self._me or self._table is not None:
            return []
        return [Down(Frame(self._me, None, (self._number(view.members),)))]

    def _number(self, members: tuple[Address, ...]) -> IdTable:
        """Keep known ids and number the others; without enough ids left, number all again."""
        epoch, highest = self._given
        ids = {member: self._ids[member] for member in members if member in self._ids}
        new = [member for member in members if member not in ids]
        if highest + len(new) > ID_MAX:
            epoch, highest, ids, new = epoch + 1, 0, {}, list(members)
        ids |= {member: highest + place for place, member in enumerate(new, 1)}
        return IdTable(epoch, highest + len(new), ids)

    def _take(self, table: IdTable, frame: Frame) -> list[Effect]:
        view = self._view
        if view is None or frame.source != view.coordinator or not frame.seqno:
            return [Dropped("ids_stranger")]
        self._given, self._ids = (table.epoch, table.highest), table.ids
        ids = ShortIds(table.epoch, table.ids)
        self._table = (ids, frame.seqno)
        return [LearnIds(ids)]

    def _write(self, event: Stable) -> list[Effect]:
        """Begin to write ids once every member of the view has delivered the table."""
        if self._table is None or self._writes or not self._config.enabled or self._view is None:
            return []
        ids, seqno = self._table
        if event.vector.get(self._view.coordinator, 0) < seqno:
            return []
        self._writes = True
        return [WriteIds(ids)]
