"""Converts records to canonical JSON lines: one object per line, one line per message.

Every line has `ev`, the clocks `t` and `w` in ns, and `process`, the owner's [site, uuid]. Uuids
are in hex, a view id is [creator, counter], a message id is [site, uuid, scope, n]. A message line
has its number and size; `sha256` is the digest of its whole batch.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId


def canonical_lines(site: str, uuid: Address, journal: Iterable[records.Record]) -> Iterator[str]:
    """Yield the lines, without newline, of the records of process (site, uuid)."""
    process = _json([site, uuid.hex()])
    for record in journal:
        head = f'"t":{record.t},"w":{record.w},"process":{process}'
        if isinstance(record, records.Deliver):
            yield from _deliver(head, record)
        elif isinstance(record, records.Send):
            yield from _send(head, record)
        elif isinstance(record, records.Unreach):
            yield from _unreach(head, record)
        else:
            name, fields = _event(record)
            body = _json(fields)
            yield f'{{"ev":"{name}",{head}{"," if fields else ""}{body[1:]}'


def _deliver(head: str, record: records.Deliver) -> Iterator[str]:
    source = _json([record.site, record.origin.hex()])
    place = "" if record.gseq is None else f'"gseq":{record.gseq},'
    view = f'"vid":{_json(_vid(record.vid))},"gvec":{_json(_vector(record.gvec))}'
    return _messages("deliver", head, record, f'"src":{source},"via":"{record.via}",{place}{view}')


def _send(head: str, record: records.Send) -> Iterator[str]:
    return _messages("send", head, record, f'"dest":{_dest(record)}')


def _messages(name: str, head: str, record: records.Send | records.Deliver, body: str) -> Iterator[str]:
    front = f'{{"ev":"{name}",{head},"id":[{_id_head(record)}'
    middle, back = f'],{body},"size":', f',"sha256":"{record.digest.hex()}"}}'
    for n, size in enumerate(_sizes(record), record.first):
        yield f"{front}{n}{middle}{size}{back}"


def _unreach(head: str, record: records.Unreach) -> Iterator[str]:
    front = f'{{"ev":"unreach",{head},"id":[{_id_head(record)}'
    back = (
        f'],"dest":{_json([record.target_site, None if record.target is None else record.target.hex()])},'
        f'"reason":{_json(record.reason)},"certainty":"{record.certainty}"}}'
    )
    for n in range(record.first, record.last + 1):
        yield f"{front}{n}{back}"


def _event(record: records.Record) -> tuple[str, dict[str, Any]]:
    match record:
        case records.Start():
            seed = {} if record.seed is None else {"seed": record.seed}
            who = {"site": record.site, "uuid": record.uuid.hex(), "name": record.name, "pid": record.pid}
            return "start", {**who, "inc": record.inc, "ver": record.version, **seed}
        case records.Stop():
            return "stop", {"reason": record.reason}
        case records.Reject():
            return "reject", {"reason": record.reason}
        case records.View():
            subs = [[_vid(vid), [member.hex() for member in members]] for vid, members in record.subs]
            members = [member.hex() for member in record.members]
            ids = {"vid": _vid(record.vid), "lineage": _vid(record.lineage)}
            return "view", {**ids, "members": members, "names": record.names, "kind": record.kind, "subs": subs}
        case records.GlobalView():
            pairs = [[site, member.hex()] for site, member in record.members]
            return "gview", {"gvec": _vector(record.gvec), "members": pairs, "down": record.down}
        case records.Role():
            epoch = None if record.epoch is None else _vid(record.epoch)
            return "role", {"role": record.role, "epoch": epoch, "to": record.to}
        case records.Gap():
            origin = [record.site, record.origin.hex()]
            told = {"origin": origin, "from": record.first, "to": record.last, "reason": record.reason}
            return "gap", told if record.scope is Scope.ALL else {**told, "scope": record.scope.name.lower()}
        case records.Baseline():
            told = {"origin": [record.site, record.origin.hex()], "next": record.next}
            return "baseline", {**told, "in_state": True} if record.in_state else told
        case records.Drop():
            return "drop", {"why": record.why, "from": record.source, "n": record.n}
    raise AssertionError(f"{record!r} makes a line a message")


def _id_head(record: records.Send | records.Deliver | records.Unreach) -> str:
    return f'{_json(record.site)},"{record.origin.hex()}","{record.scope.name.lower()}",'


def _dest(record: records.Send) -> str:
    if record.target is not None:
        return _json([record.target_site, record.target.hex()])
    return '"site"' if record.scope is Scope.SITE else '"all"'


def _sizes(record: records.Send | records.Deliver) -> tuple[int, ...]:
    return struct.unpack(f"<{record.count}I", record.sizes)


def _vid(vid: ViewId) -> list[Any]:
    return [vid.creator.hex(), vid.counter]


def _vector(vector: Mapping[str, ViewId]) -> dict[str, list[Any]]:
    return {site: _vid(vid) for site, vid in vector.items()}


def _json(value: Any) -> str:
    """Encode as compact ASCII JSON, so that no name can break or forge a line (C25)."""
    return json.dumps(value, separators=(",", ":"))
