"""X10: a unicast reaches its target once, or its failure is reported to its origin."""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.message import UNICASTS
from sitestack.promises.history import Fate, History, unreached_unicasts
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream
from sitestack.promises.violation import Damage, Findings, Violation


def check_unicasts(histories: Sequence[History]) -> list[Violation]:
    """X10 at any time. Only the destination delivers a unicast, and none that is reported as not delivered."""
    findings = Findings("X10")
    targets = _targets_by_digest(histories)
    delivered = _delivered(histories)
    failed = unreached_unicasts(histories, "not_delivered")
    unknown = unreached_unicasts(histories, "unknown")
    for history in histories:
        for stay in history.stays:
            for deliver in stay.delivers:
                if deliver.scope not in UNICASTS:
                    continue
                stream = Stream(deliver.site, deliver.origin, deliver.scope, None)
                meant = targets.get((stream, deliver.first, deliver.digest))
                if meant is not None and history.uuid not in {each.target for each in meant}:
                    what = f"delivered {meant[0]} {deliver.first}..{deliver.last}"
                    findings.add(history.label, "target", what)
    for stream in dict.fromkeys([*failed, *unknown]):
        both = failed.get(stream, Ranges()) & delivered.get(stream, Ranges())
        if both:
            what = f"{stream} {both} is reported as not delivered and was delivered"
            findings.add(f"{stream.site}/{stream.origin!r}", f"false {stream}", what)
        twice = failed.get(stream, Ranges()) & unknown.get(stream, Ranges())
        if twice:
            what = f"{stream} {twice} is reported as not delivered, and as perhaps not delivered"
            findings.add(f"{stream.site}/{stream.origin!r}", f"twice {stream}", what)
    return findings.violations()


def check_unicast_outcomes(histories: Sequence[History]) -> list[Violation]:
    """X10, quiescent runs.

    Every unicast is delivered or reported, unless its origin or its destination is dead.
    """
    findings = Findings("X10")
    delivered = _delivered(histories)
    failed = unreached_unicasts(histories, "not_delivered")
    unknown = unreached_unicasts(histories, "unknown")
    survivors = {history.uuid: history for history in histories if history.survives}
    for history in histories:
        if history.fate is Fate.CRASHED:
            continue
        for stream, sent in history.sent.items():
            target = survivors.get(stream.target) if stream.target is not None else None
            if target is None:
                continue
            missing = sent
            for outcome in (delivered, failed, unknown):
                missing -= outcome.get(stream, Ranges())
            if missing:
                what = f"{stream} {missing} was sent; it was neither delivered nor reported"
                findings.add(history.label, str(stream), what, Damage("lost", target.uuid, stream, missing))
    return findings.violations()


def _delivered(histories: Sequence[History]) -> dict[Stream, Ranges]:
    return {
        stream: reception.delivered
        for history in histories
        for stream, reception in history.receptions.items()
        if stream.scope in UNICASTS
    }


def _targets_by_digest(histories: Sequence[History]) -> dict[tuple[Stream, int, bytes], list[Stream]]:
    """Map origin, number and digest to the streams with such a unicast."""
    found: dict[tuple[Stream, int, bytes], list[Stream]] = {}
    for history in histories:
        for send in history.sends:
            if send.scope in UNICASTS:
                anywhere = Stream(send.site, send.origin, send.scope, None)
                stream = anywhere._replace(target=send.target)
                found.setdefault((anywhere, send.first, send.digest), []).append(stream)
    return found
