"""The deliveries and events of a channel as canonical JSON lines, for programs in any language (`relay node --events`).

The lines are those of the journal (`relay/journal/canonical.py`), made by its recorder; the line of a delivery also has the
message's text, when the message is UTF-8, and that of a view the names that more than one member has (`shared_names`), if any.
"""

from __future__ import annotations

import json

from relay.journal.canonical import canonical_lines
from relay.journal.recorder import RELAY_RECORDS
from sitestack.channel.receiving.inbox import Delivery
from sitestack.journal import records
from sitestack.journal.recorder import Clock, Recorder
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event
from sitestack.model.view import View

#: `why` of the `drop` line that says how many event lines are missing.
WHY_LOST = "events"
#: `source` of that line where a sender has encoded its messages wrongly.
WHY_MALFORMED = "malformed"


class EventLines:
    """Makes the lines of one process, which must hand in every delivery, view and event, in order."""

    def __init__(self, site: str, address: Address, clock: Clock) -> None:
        self._records: list[records.Record] = []
        # An application is not told of places, so the journal's order of places is left out.
        self._recorder = Recorder(site, address, self._records.append, clock, total_order=False, event_records=RELAY_RECORDS)

    def lines(self, item: Delivery | View | Event) -> list[str]:
        """The lines of one item, without newlines; none for what the vocabulary does not know.

        A batch that its sender encoded wrongly is a line that says how many are missing: its sizes are not true.
        """
        texts: list[bytes] = []
        if isinstance(item, Delivery):
            try:
                texts = list(item.payloads())
            except ProtocolError:
                return self.lost(item.batch.count, WHY_MALFORMED)
            self._recorder.deliver(item.batch, 0)
        elif isinstance(item, View):
            self._recorder.install(item)
        else:
            self._recorder.record(item)
        lines = list(canonical_lines(self._recorder.site, self._recorder.address, self._records))
        self._records.clear()
        if isinstance(item, Delivery):
            return [_with_text(line, payload) for line, payload in zip(lines, texts, strict=True)]
        if isinstance(item, View) and item.shared_names:
            return [f'{line[:-1]},"shared_names":{json.dumps(item.shared_names)}}}' for line in lines]
        return lines

    def lost(self, count: int, why: str) -> list[str]:
        """The line that says that `count` lines could not be written, and `why`."""
        drop = records.Drop(*self._recorder.clock(), WHY_LOST, why, count)
        return list(canonical_lines(self._recorder.site, self._recorder.address, [drop]))


def _with_text(line: str, payload: bytes) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return line
    return f'{line[:-1]},"text":{json.dumps(text)}}}'
