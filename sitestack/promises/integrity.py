"""L1: every delivered message was sent, once, with the same contents and in the same batches. The
other checkers compare numbers only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.promises.history import Fate, History
from sitestack.promises.reception import Stream
from sitestack.promises.violation import Findings, Violation

#: L1's text for a delivery by kind; `batch` and `sent` are as `1..4`.
CORRUPTED = {
    "no origin": "delivered {stream} {batch}, and there is no journal of its origin",
    "never sent": "delivered {stream} {batch}, which was never sent",
    "re-cut": "delivered {stream} {batch}: batch re-cut, it was sent as {sent}",
    "contents": "delivered {stream} {batch} with other contents than it was sent with",
}
#: L1's text for a send.
SENT_TWICE = "sent {stream} {batch} twice"
FOREIGN = "journals a send of {origin} as its own"


def check_integrity(histories: Sequence[History]) -> list[Violation]:
    """L1. For every deliver(m) there is exactly one send(m) in the journal of m's origin, with equal
    sha256 and size.

    Exempt is the last batch of a crashed origin. Its deliveries must agree with each other.
    """
    findings = Findings("L1")
    sent = {history.uuid: _index_sends(history, findings) for history in histories}
    crashed = {history.uuid for history in histories if history.fate is Fate.CRASHED}
    exempt: dict[Address, tuple[Stream, records.Deliver]] = {}
    contents: dict[Address | None, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
    for history in histories:
        for send in history.sends:
            contents.setdefault(send.target, {})[_BATCH(send)] = _CONTENTS(send)
    for history, deliver in _not_as_sent(histories, contents):
        target = history.uuid if deliver.scope in UNICASTS else None
        batches = sent.get(deliver.origin, {}).get((deliver.site, deliver.scope, target), {})
        stream = Stream(deliver.site, deliver.origin, deliver.scope, target)
        kind, nearest = _explain(batches, deliver, deliver.origin in sent)
        if kind == "never sent" and deliver.origin in crashed and _follows(batches, deliver):
            kept = exempt.setdefault(deliver.origin, (stream, deliver))
            if _is_same_batch(kept, (stream, deliver)):
                continue
        sent_as = "" if nearest is None else f"{nearest.first}..{nearest.last}"
        what = CORRUPTED[kind].format(stream=stream, batch=f"{deliver.first}..{deliver.last}", sent=sent_as)
        findings.add(history.label, f"{kind} {stream}", what)
    return findings.violations()


_BATCH = attrgetter("site", "origin", "scope", "first")
_CONTENTS = attrgetter("digest", "sizes", "count")


def _not_as_sent(
    histories: Sequence[History], contents: dict[Address | None, dict[tuple[Any, ...], tuple[Any, ...]]]
) -> Iterator[tuple[History, records.Deliver]]:
    """Yield deliveries of batches that differ from those sent to all or to the delivering process."""
    multicasts = contents.get(None, {})
    for history in histories:
        unicasts = contents.get(history.uuid, {})
        for stay in history.stays:
            for deliver in stay.delivers:
                batches = unicasts if deliver.scope in UNICASTS else multicasts
                if batches.get(_BATCH(deliver)) != _CONTENTS(deliver):
                    yield history, deliver


_Sent = dict[tuple[str, Scope, Address | None], dict[int, records.Send]]


def _index_sends(history: History, findings: Findings) -> _Sent:
    """Return the batches of an origin by stream and first number.

    Add a finding for numbers used twice.
    """
    index: _Sent = {}
    highest: dict[tuple[str, Scope, Address | None], int] = {}
    for send in history.sends:
        if (send.origin, send.site) != (history.uuid, history.site):
            findings.add(history.label, "foreign", FOREIGN.format(origin=f"{send.site}/{send.origin!r}"))
        key = (send.site, send.scope, send.target)
        if send.first <= highest.get(key, 0):
            stream = Stream(send.site, send.origin, send.scope, send.target)
            what = SENT_TWICE.format(stream=stream, batch=f"{send.first}..{send.last}")
            findings.add(history.label, f"twice {stream}", what)
        highest[key] = max(highest.get(key, 0), send.last)
        index.setdefault(key, {})[send.first] = send
    return index


def _explain(batches: dict[int, records.Send], deliver: records.Deliver, origin_known: bool) -> tuple[str, records.Send | None]:
    """Return the kind of a wrong delivery, and the nearest send of its stream."""
    if not origin_known:
        return "no origin", None
    firsts = sorted(batches)
    nearest = bisect_right(firsts, deliver.last)
    send = batches[firsts[nearest - 1]] if nearest else None
    if send is None or send.last < deliver.first:
        return "never sent", None
    return "re-cut" if (send.first, send.count) != (deliver.first, deliver.count) else "contents", send


def _follows(batches: dict[int, records.Send], deliver: records.Deliver) -> bool:
    last_sent = batches[max(batches)].last if batches else 0
    return deliver.first == last_sent + 1


def _is_same_batch(one: tuple[Stream, records.Deliver], other: tuple[Stream, records.Deliver]) -> bool:
    (stream, deliver), (other_stream, other_deliver) = one, other
    return (stream, deliver.first, _CONTENTS(deliver)) == (
        other_stream,
        other_deliver.first,
        _CONTENTS(other_deliver),
    )
