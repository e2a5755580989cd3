"""L1: what is delivered was sent, once, with the same contents and in the same batches.

The other checkers lean on this one: they compare numbers only, because here every delivered batch has been held
against the batch that was sent, edges, sizes and digest.
"""

from __future__ import annotations

from collections.abc import Sequence

from sitestack import records
from sitestack.address import Address
from sitestack.message import Scope
from sitestack.sim.checkers.history import Fate, History
from sitestack.sim.checkers.reception import Stream
from sitestack.sim.checkers.violation import Findings, Violation


def check_integrity(histories: Sequence[History]) -> list[Violation]:
    """L1. For every deliver(m) there is exactly one send(m) in the journal of m's origin, with equal sha256 and size.

    Exempt is the last batch of a crashed origin, whose `send` may not have reached its journal: the first batch after
    the last journaled one, of one of its streams; its deliveries must then agree with each other.
    """
    findings = Findings("L1")
    sent = {history.uuid: _index_sends(history, findings) for history in histories}
    crashed = {history.uuid for history in histories if history.fate is Fate.CRASHED}
    exempt: dict[Address, tuple[Stream, records.Deliver]] = {}
    for history in histories:
        for stay in history.stays:
            for deliver in stay.delivers:
                target = history.uuid if deliver.scope is Scope.UNICAST else None
                batches = sent.get(deliver.origin, {}).get((deliver.site, deliver.scope, target), {})
                send = batches.get(deliver.first)
                if (
                    send is not None
                    and send.digest == deliver.digest
                    and send.sizes == deliver.sizes
                    and send.count == deliver.count
                ):
                    continue
                stream = Stream(deliver.site, deliver.origin, deliver.scope, target)
                kind, what = _explain(stream, batches, deliver, deliver.origin in sent)
                if kind == "never sent" and deliver.origin in crashed:
                    last_sent = max((each.last for each in batches.values()), default=0)
                    kept = exempt.setdefault(deliver.origin, (stream, deliver))
                    if deliver.first == last_sent + 1 and _is_same_batch(kept, (stream, deliver)):
                        continue
                findings.add(history.label, f"{kind} {stream}", what)
    return findings.violations()


_Sent = dict[tuple[str, Scope, Address | None], dict[int, records.Send]]


def _index_sends(history: History, findings: Findings) -> _Sent:
    """The batches of an origin by stream and first number; says so when numbers were used twice."""
    index: _Sent = {}
    highest: dict[tuple[str, Scope, Address | None], int] = {}
    for send in history.sends:
        if (send.origin, send.site) != (history.uuid, history.site):
            findings.add(history.label, "foreign", f"journals a send of {send.site}/{send.origin!r} as its own")
        key = (send.site, send.scope, send.target)
        if send.first <= highest.get(key, 0):
            stream = Stream(send.site, send.origin, send.scope, send.target)
            findings.add(history.label, f"twice {stream}", f"sent {stream} {send.first}..{send.last} twice")
        highest[key] = max(highest.get(key, 0), send.last)
        index.setdefault(key, {})[send.first] = send
    return index


def _explain(
    stream: Stream, batches: dict[int, records.Send], deliver: records.Deliver, origin_known: bool
) -> tuple[str, str]:
    """Kind and words of what is wrong with a delivery."""
    what = f"delivered {stream} {deliver.first}..{deliver.last}"
    if not origin_known:
        return "no origin", f"{what}, and there is no journal of its origin"
    overlapping = [
        send for send in batches.values() if send.first <= deliver.last and deliver.first <= send.last
    ]
    if not overlapping:
        return "never sent", f"{what}, which was never sent"
    send = overlapping[0]
    if (send.first, send.count) != (deliver.first, deliver.count):
        return "re-cut", f"{what}: batch re-cut, it was sent as {send.first}..{send.last}"
    if send.sizes != deliver.sizes:
        return "sizes", f"{what} with other sizes than it was sent with"
    return "digest", f"{what} with sha256 {deliver.digest.hex()[:12]}.., sent with {send.digest.hex()[:12]}.."


def _is_same_batch(one: tuple[Stream, records.Deliver], other: tuple[Stream, records.Deliver]) -> bool:
    (stream, deliver), (other_stream, other_deliver) = one, other
    return (stream, deliver.first, deliver.count, deliver.sizes, deliver.digest) == (
        other_stream,
        other_deliver.first,
        other_deliver.count,
        other_deliver.sizes,
        other_deliver.digest,
    )
