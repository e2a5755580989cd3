"""The dashboard of real nodes in a real browser, while a relay fails: its delay and its appearance."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from relay.keys.directory import make_key_directory
from tests.harness.browser import Browser, Page
from tests.harness.node_sites import NodeSites, node_sites, until
from tests.relay.node.http.test_dashboard import members, tags

#: Seconds from a node's report of a departed member to its page.
SEEN_S_MAX = 2.0
#: From the death of a relay until the others have the view without it: much longer than it takes, for slow machines.
FAILOVER_S_MAX = 20.0
#: The directory for the pictures; without it they are thrown away.
PICTURES = "DASHBOARD_PICTURES"
#: Settings with which a member that hangs is waited for longer than the pictures take.
PATIENT = {"protocols": {"failure_detection": {"timeout_s": 30.0}}, "membership": {"leader": {"flush_timeout_s": 40.0}}}


def members_of_nyc(sites: NodeSites, name: str) -> list[str]:
    """The members of NYC as the status of a node has them."""
    status = sites.status(name)
    names: list[str] = status["view"]["members"] if status["site"] == "NYC" else status["global_view"]["sites"]["NYC"]
    return names


def await_view(sites: NodeSites, name: str, names: list[str]) -> float:
    """Wait until the status of a node has these members of NYC; the time of day then."""
    until(lambda: members_of_nyc(sites, name) == names)
    return time.time()


def note_when_shown(page: Page, shown: str) -> None:
    """Have the page keep the time of day at which it begins to show something: to the millisecond, and hidden or not."""
    page.evaluate(
        f"window.shown = new Promise((resolve) => new MutationObserver(() => {{ if ({shown}) resolve(Date.now() / 1000); }})"
        ".observe(document.getElementById('site-list'), { childList: true, subtree: true })); true"
    )


@pytest.mark.slow
def test_members_appear_and_a_killed_relay_is_seen_from_its_own_site_and_from_the_other(
    directory: Path, chromium: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    with node_sites(directory, {"NYC": "AB", "SFO": "D"}) as sites, ThreadPoolExecutor() as pool:
        relay, second = sites.status("A")["view"]["members"]
        pages = {name: chromium.open(f"{sites.urls[name]}/") for name in (second, "D")}
        for page in pages.values():
            page.wait_for(f"{members('NYC')} === '{relay}{second}' && {members('SFO')} === 'D'")
            page.wait_for("document.getElementById('connection').className === 'live'")
            assert page.evaluate("document.getElementById('insecure').hidden") is False
            foreign = "performance.getEntriesByType('resource').filter((each) => !each.name.startsWith(location.origin)).length"
            assert page.evaluate(foreign) == 0
            note_when_shown(page, f"{members('NYC')} === '{second}'")
        killed = time.time()
        sites.kill(relay)
        known = {name: pool.submit(await_view, sites, name, [second]) for name in pages}
        shown = {name: page.evaluate("window.shown") for name, page in pages.items()}
        for page in pages.values():
            page.wait_for(f"document.querySelector('[data-kind=failover] .what')?.textContent.includes('{second} takes over')")
            page.wait_for("document.getElementById('announcement').textContent !== ''")
            assert page.errors == []
        pages[second].call("Page.bringToFront")  # a hidden page takes no samples
        pages[second].wait_for("document.querySelector('[data-link=SFO] .tag').textContent === 'linked'")
        for page in pages.values():
            page.close()
    with capsys.disabled():
        took = [f"{name} {known[name].result() - killed:.2f} s, its page {shown[name] - killed:.2f} s" for name in pages]
        print(f" [after a relay is killed it is gone for {', for '.join(took)}] ", end="")
    assert max(each.result() for each in known.values()) - killed < FAILOVER_S_MAX
    assert {name: late for name in pages if (late := shown[name] - known[name].result()) > SEEN_S_MAX} == {}


def publish(sites: NodeSites, name: str, ended: Event) -> None:
    """Publish through a member until the end, ten messages a second at most."""
    while not ended.wait(0.1):
        sites.post(name, "a reading of a sensor")


def stop_with_a_message_on_its_way(sites: NodeSites, relay: str, witness: str) -> bool:
    """Stop the relay; let it continue, and return False, when the other site has acknowledged everything by then.

    No member of the site delivers anything without its relay, so a chart of the lag that begins with nothing stays low.
    """
    sites.processes[relay].send_signal(signal.SIGSTOP)
    time.sleep(0.2)  # an acknowledgement may still be on its way to the witness
    [link] = sites.status(witness)["links"]
    if not link["behind_messages"]:
        sites.processes[relay].send_signal(signal.SIGCONT)
    return bool(link["behind_messages"])


@pytest.mark.long
def test_the_dashboard_shows_the_relay_and_the_lag_throughout_a_failover(
    directory: Path, tmp_path: Path, chromium: Browser
) -> None:
    """The relay hangs first, which looks like slowness for a while, and is killed then."""
    pictures = Path(os.environ.get(PICTURES, tmp_path))
    make_key_directory(directory / "keys", ["NYC", "SFO"])
    with (
        node_sites(directory, {"NYC": "AB", "SFO": "DE"}, keys=directory / "keys", **PATIENT) as sites,
        ThreadPoolExecutor() as pool,
    ):
        relay, second = sites.status("A")["view"]["members"]
        page = chromium.open(f"{sites.urls[second]}/")
        page.resize(1000, 1150)
        ended = Event()
        senders = [pool.submit(publish, sites, name, ended) for name in (second, "D")]
        try:
            page.wait_for(f"{members('NYC')} === '{relay}{second}' && {tags(relay)} === 'relays'")
            page.wait_for("/ in [4-9] s$/.test(document.querySelector('[data-link=SFO] svg').ariaLabel)")
            page.photograph(pictures / "dashboard-before.png")
            until(lambda: stop_with_a_message_on_its_way(sites, relay, second))
            page.wait_for(
                "document.querySelector('[data-link=SFO] figure.high') && document.querySelector('#verdict.degraded')"
            )
            assert page.evaluate(f"{members('NYC')} === '{relay}{second}' && {tags(relay)} === 'relays'")
            page.photograph(pictures / "dashboard-during.png")
            sites.kill(relay)
            page.wait_for(f"{members('NYC')} === '{second}' && {tags(second)} === 'relays, this node'")
            page.wait_for(f"document.querySelector('[data-kind=failover] .what').textContent.includes('{second} takes over')")
            page.wait_for(
                "!document.querySelector('figure.high') && document.querySelector('output').textContent !== '0 msg/s'"
            )
            page.wait_for("document.querySelector('#verdict.degraded')")
            page.photograph(pictures / "dashboard-after.png")
        finally:
            ended.set()
        for sender in senders:
            sender.result()
        assert page.errors == []
        page.close()
