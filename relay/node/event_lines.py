"""What an application hears of its channel as canonical JSON lines, for programs in any language (`relay node --events`).

The lines are those of the journal (`relay/journal/canonical.py`), and a delivery also has its text when it is UTF-8.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Literal

from relay.events import Gap, GlobalView, Role, Unreachable
from relay.journal.canonical import canonical_lines
from sitestack.channel.inbox import Delivery
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.view import View, ViewId

#: `why` of the line that says how many lines are missing.
WHY_LOST = "events"
#: Answers with the monotonic and the wall clock, both in nanoseconds.
Clock = Callable[[], tuple[int, int]]


class EventLines:
    """Makes the lines of one process, which must hand in everything it hears, in order."""

    def __init__(self, site: str, address: Address, clock: Clock) -> None:
        self._site = site
        self._address = address
        self._clock = clock
        self._view: ViewId | None = None
        self._global: Mapping[str, ViewId] = {}

    def lines(self, item: Delivery | View | Event) -> list[str]:
        """The lines of one item, without newlines; none for what the vocabulary does not know."""
        if isinstance(item, Delivery):
            return self._deliver(item)
        record = self._record(item)
        return [] if record is None else list(canonical_lines(self._site, self._address, [record]))

    def lost(self, count: int, why: str) -> list[str]:
        """The line that says that so many lines could not be written."""
        return list(canonical_lines(self._site, self._address, [records.Drop(*self._clock(), WHY_LOST, why, count)]))

    def _deliver(self, item: Delivery) -> list[str]:
        batch = item.batch
        assert self._view is not None, "a delivery before the first view"
        via: Literal["local", "relay"] = "local" if batch.site == self._site else "relay"
        digest = hashlib.sha256(batch.body).digest()
        record = records.Deliver(
            *self._clock(),
            batch.site,
            batch.origin,
            batch.scope,
            batch.first,
            batch.count,
            via,
            None,
            self._view,
            self._global,
            batch.sizes,
            digest,
        )
        lines = canonical_lines(self._site, self._address, [record])
        return [_with_text(line, payload) for line, payload in zip(lines, item.payloads(), strict=True)]

    def _record(self, item: View | Event) -> records.Record | None:
        t, w = self._clock()
        if isinstance(item, View):
            self._view = item.id
            subs = tuple([(sub.id, sub.members) for sub in item.subviews])
            return records.View(t, w, item.id, item.lineage, item.members, item.names, "merge" if subs else "view", subs)
        if isinstance(item, GlobalView):
            self._global = item.components
            members = tuple([(member.site, member.original) for member in item.members])
            return records.GlobalView(t, w, item.components, members, item.down)
        if isinstance(item, Role):
            return records.Role(t, w, item.duty.value, item.epoch, item.sites)
        if isinstance(item, Gap):
            return records.Gap(t, w, item.site, item.origin, item.first, item.last, item.reason)
        return self._unreachable(item, t, w) if isinstance(item, Unreachable) else None

    def _unreachable(self, item: Unreachable, t: int, w: int) -> records.Record:
        target = item.target
        count = item.last - item.first + 1
        return records.Unreach(
            t,
            w,
            self._site,
            self._address,
            item.scope,
            item.first,
            count,
            target.original,
            target.site,
            item.reason.value,
            item.certainty.value,
        )


def _with_text(line: str, payload: bytes) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return line
    return f'{line[:-1]},"text":{json.dumps(text)}}}'
