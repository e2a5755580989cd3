"""Where a member can be reached: WHO-HAS, I-HAVE and INVALIDATE.

C has a frame for B without B's address; later B leaves:

C -> all    WhoHas(B, asked by C)                all members cache C
B -> C      IHave(B at b:1)                      C sends the queued frames
B -> all    Invalidate(B)                        all members forget B and keep a tombstone

The same headers are sent unasked: by a moved member, and by the coordinator after a view change.
"""

from __future__ import annotations

from sitestack.layers.discovery.directory import CONTACTS_PER_FRAME, Directory, is_own_word
from sitestack.layers.discovery.headers import IHave, Invalidate, WhoHas, say
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import RemovePhysical, SetPhysical
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect

#: Repetitions of the announcement of a changed address.
ANNOUNCEMENTS = 3


class Lookup:
    def __init__(self, directory: Directory, announce_interval_s: float, stranger_s: float) -> None:
        self._directory = directory
        self._contacts = directory.contacts
        self._announce_interval_s = announce_interval_s
        self._stranger_s = stranger_s
        self._announcements = 0
        self._announce_at = 0.0
        self._sweep_at: float | None = None
        self._given: tuple[Contact, ...] = ()

    def connect(self, physical: tuple[Physical, ...], now: float) -> list[Effect]:
        directory = self._directory
        if directory.physical and directory.physical != physical:
            self._announcements, self._announce_at = ANNOUNCEMENTS, now
        directory.physical = physical
        self._sweep_at = now + self._stranger_s
        me = directory.me()
        return [Down(SetPhysical(me.address, me.physical, me.version))]

    def leave(self) -> list[Effect]:
        """Ask all members to forget this one, and forget its own addresses."""
        me, directory = self._directory.address, self._directory
        effects = say(me, Invalidate(me, directory.me().version), (None,)) if directory.physical else []
        directory.physical, directory.view, self._sweep_at = (), None, None
        return [*effects, Down(RemovePhysical(me))]

    def deadline(self) -> float | None:
        if self._sweep_at is not None and self._announcements:
            return min(self._sweep_at, self._announce_at)
        return self._sweep_at

    def expire(self, now: float, initial_hosts: tuple[Physical, ...]) -> list[Effect]:
        effects: list[Effect] = []
        directory = self._directory
        if self._announcements and now >= self._announce_at:
            self._announcements -= 1
            self._announce_at = now + self._announce_interval_s
            effects += say(directory.address, IHave((directory.me(),)), (None, *initial_hosts))
        if self._sweep_at is not None and now >= self._sweep_at:
            self._sweep_at = now + self._stranger_s
            for stranger in self._contacts.silent(now - self._stranger_s):
                effects += self._forget(stranger, now)
        return effects

    def _forget(self, member: Address, now: float, version: int = 0) -> list[Effect]:
        self._contacts.remove(member, now, version)
        return [Down(RemovePhysical(member))]

    def find(self, member: Address, again: bool, initial_hosts: tuple[Physical, ...]) -> list[Effect]:
        """Answer the resolver's question, or ask all members; `again`: despite a known address."""
        known = self._contacts.get(member)
        if known is not None and not again:
            return [Down(SetPhysical(member, known.physical, known.version))]
        directory = self._directory
        if not directory.physical:
            return [Dropped("not_connected")]
        dests = dict.fromkeys((None, *initial_hosts, *self._contacts.last_known(member)))
        return say(directory.address, WhoHas(member, directory.me()), dests)

    def handle_who_has(self, header: WhoHas, source: Address, now: float) -> list[Effect]:
        member, directory = header.member, self._directory
        if not is_own_word(header.asker, source):
            return [Dropped("bad_contact")]
        effects = directory.learn(header.asker, source, now)
        known = self._contacts.get(member)
        if member != directory.address and (known is None or not directory.tells_of(member)):
            return effects
        if not directory.may_answer(source, member, now):
            return [*effects, Dropped("not_answered")]
        return effects + say(directory.address, IHave((directory.me() if known is None else known,)), (source,))

    def handle_i_have(self, header: IHave, source: Address, now: float) -> list[Effect]:
        if len(header.contacts) > CONTACTS_PER_FRAME:
            return [Dropped("too_many_contacts")]
        return [effect for contact in header.contacts for effect in self._directory.learn(contact, source, now)]

    def handle_invalidate(self, header: Invalidate, source: Address, now: float) -> list[Effect]:
        member = header.member
        if not self._directory.may_invalidate(member, source):
            return [Dropped("no_authority")]
        known = self._contacts.get(member)
        # An older version counts only from the coordinator; a living member's next contact is
        # newer.
        if source == member and known is not None and known.version > header.version:
            return [Dropped("late_invalidate")]
        return self._forget(member, now, header.version)

    def merge_contacts(self, contacts: tuple[Contact, ...]) -> None:
        self._given = contacts

    def install(self, view: View, previous: View | None, now: float) -> list[Effect]:
        """Learn joined members and forget departed ones; the coordinator announces both."""
        directory, contacts = self._directory, self._contacts
        directory.view = view
        contacts.pin(view.members, now)
        effects: list[Effect] = []
        for contact in self._given:
            effects += directory.learn(contact, view.coordinator, now)
        self._given = ()
        before = () if previous is None else previous.members
        gone = [member for member in before if member not in view.members]
        obituaries = [Invalidate(member, known.version) for member in gone if (known := contacts.get(member)) is not None]
        for member in gone:
            effects += self._forget(member, now)
        if view.coordinator == directory.address:
            for obituary in obituaries:
                effects += say(directory.address, obituary, (None,))
            # After a merge each part is new to the other.
            effects += self._introduce([each for each in view.members if view.subviews or each not in before])
        return effects

    def _introduce(self, members: list[Address]) -> list[Effect]:
        me, directory = self._directory.address, self._directory
        contacts = [directory.me() if each == me else self._contacts.get(each) for each in members]
        known = [contact for contact in contacts if contact is not None]
        effects: list[Effect] = []
        for start in range(0, len(known), CONTACTS_PER_FRAME):
            effects += say(me, IHave(tuple(known[start : start + CONTACTS_PER_FRAME])), (None,))
        return effects
