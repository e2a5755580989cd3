"""What the clocks of the members say, by the date in an answer to HTTP, which everybody gets and which tells whole seconds.

No protocol needs clocks that agree. The beginnings and ends of certificates do, and whoever compares journals and logs.
"""

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
#: Seconds by which clocks may differ. The date is cut to whole seconds.
DIFFERENCE_S_MAX = 2.0


async def examine_clocks(config: NodeConfig, hosts: Sequence[str], clock: Callable[[], float] = time.time) -> list[Finding]:
    """A finding on the clock of the member on each of these hosts; none where no HTTP is configured, which alone tells it."""
    if config.http.bind is None:
        return []
    port = config.http.bind.port
    found = {place: await _difference(place, clock) for place in [Physical(host, port) for host in dict.fromkeys(hosts)]}
    findings = []
    for place, difference_s in found.items():
        if difference_s is None:
            findings.append(Finding("clock", f"HTTP does not answer at {place}, so the clock there is not known."))
        elif difference_s <= DIFFERENCE_S_MAX:
            findings.append(Finding("clock", f"that of {place.host} agrees with this one's within {DIFFERENCE_S_MAX:g} s."))
        else:
            advice = "Let NTP set the clocks of all machines: certificates begin and end, and journals are compared, by them."
            findings.append(Finding("clock", f"that of {place.host} differs from this one's by {difference_s:.0f} s.", advice))
    return findings


async def _difference(place: Physical, clock: Callable[[], float]) -> float | None:
    """Seconds between the clock there and this one's, less what the answer may have taken; None without an answer."""
    asked = clock()
    with trio.move_on_after(ANSWER_S):
        try:
            date = await _date(place)
        except (OSError, trio.BrokenResourceError, ValueError):
            return None
        # The clock there read from `date` to just below a second later, at some time between both readings here.
        return max(0.0, asked - (date + 1.0), date - clock())
    return None


async def _date(place: Physical) -> float:
    """The date of an answer, as seconds since the epoch. Raises OSError and, when it has none, ValueError."""
    async with await trio.open_tcp_stream(*place) as stream:
        await stream.send_all(f"GET /healthz HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < ANSWER_BYTES_MAX and (data := await stream.receive_some(1_024)):
            answer += data
    for line in answer.partition(b"\r\n\r\n")[0].decode("latin-1").splitlines()[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "date":
            return parsedate_to_datetime(value.strip()).timestamp()
    raise ValueError("it says no date")
