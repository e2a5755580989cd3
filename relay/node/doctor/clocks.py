"""Comparison of the members' clocks, by the date in HTTP answers, which needs no token."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime

import trio

from relay.node.config.settings import NodeConfig
from relay.node.doctor.finding import Finding
from sitestack.model.address import Physical

ANSWER_S = 2.0
ANSWER_BYTES_MAX = 4_096
#: Maximum difference of clocks (s). The date has whole seconds.
DIFFERENCE_S_MAX = 2.0


async def examine_clocks(config: NodeConfig, hosts: Sequence[str], clock: Callable[[], float] = time.time) -> list[Finding]:
    """Return a finding for the clock of each host, or none without HTTP."""
    if config.http.bind is None:
        return []
    port = config.http.bind.port
    found = {place: await _difference(place, clock) for place in [Physical(host, port) for host in dict.fromkeys(hosts)]}
    findings = []
    for place, difference_s in found.items():
        if difference_s is None:
            findings.append(Finding("clock", f"HTTP does not answer at {place}, so its clock is unknown."))
        elif difference_s <= DIFFERENCE_S_MAX:
            findings.append(Finding("clock", f"{place.host} agrees within {DIFFERENCE_S_MAX:g} s."))
        else:
            advice = "Synchronize all clocks (NTP): certificates and comparisons of journals depend on them."
            findings.append(Finding("clock", f"{place.host} differs by {difference_s:.0f} s.", advice))
    return findings


async def _difference(place: Physical, clock: Callable[[], float]) -> float | None:
    """Return the seconds between both clocks, less the answer's delay, or None without an answer."""
    asked = clock()
    with trio.move_on_after(ANSWER_S):
        try:
            date = await _date(place)
        except (OSError, trio.BrokenResourceError, ValueError):
            return None
        # The remote clock read from `date` to just below a second later.
        return max(0.0, asked - (date + 1.0), date - clock())
    return None


async def _date(place: Physical) -> float:
    """Return the date of an answer (seconds since the epoch).

    Raises OSError; ValueError without a date.
    """
    async with await trio.open_tcp_stream(*place) as stream:
        await stream.send_all(f"GET /healthz HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < ANSWER_BYTES_MAX and (data := await stream.receive_some(1_024)):
            answer += data
    for line in answer.partition(b"\r\n\r\n")[0].decode("latin-1").splitlines()[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "date":
            return parsedate_to_datetime(value.strip()).timestamp()
    raise ValueError("no Date header")
