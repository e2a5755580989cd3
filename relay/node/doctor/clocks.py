"""Comparison of the members' clocks, by the date in HTTP answers, which needs no token."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection

import trio

from relay.node.config.settings import NodeConfig
from relay.node.doctor import Finding
from sitestack.model.address import Physical

ANSWER_S = 2.0
#: Maximum difference of clocks (s). The date has whole seconds.
DIFFERENCE_S_MAX = 2.0


async def examine_clocks(config: NodeConfig, hosts: Sequence[str], clock: Callable[[], float] = time.time) -> list[Finding]:
    """Return a finding for the clock of each host, or none without HTTP."""
    if config.http.bind is None:
        return []
    port = config.http.bind.port
    places, has_tls = [Physical(host, port) for host in dict.fromkeys(hosts)], bool(config.http.certificate)
    found = {place: await _difference(place, has_tls, clock) for place in places}
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


async def _difference(place: Physical, has_tls: bool, clock: Callable[[], float]) -> float | None:
    """Return the seconds between both clocks, less the answer's delay, or None without an answer."""
    asked = clock()
    try:
        date = await trio.to_thread.run_sync(_date, place, has_tls)
    except (OSError, HTTPException, ValueError):
        return None
    # The remote clock read from `date` to just below a second later.
    return max(0.0, asked - (date + 1.0), date - clock())


def _date(place: Physical, has_tls: bool) -> float:
    """Return an answer's date (seconds since the epoch), of any certificate.

    Raises OSError, HTTPException; ValueError without a date.
    """
    any_certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    any_certificate.check_hostname, any_certificate.verify_mode = False, ssl.CERT_NONE
    plain = HTTPConnection(*place, timeout=ANSWER_S)
    with closing(HTTPSConnection(*place, timeout=ANSWER_S, context=any_certificate) if has_tls else plain) as connection:
        connection.request("GET", "/healthz")
        return parsedate_to_datetime(connection.getresponse().getheader("Date", "")).timestamp()
