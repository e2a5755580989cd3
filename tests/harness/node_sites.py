"""Two sites of real nodes on this machine, each with HTTP: for tests of what talks to them from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from relay_lab.drills.layout import draw_group
from relay_lab.drills.tether import tie
from sitestack.model.address import Physical
from sitestack.model.host import is_ipv6
from tests.harness.sockets import free_port

#: Much longer than any of it takes, for slow machines.
LIMIT_S = 60.0


class NodeSites:
    """The processes by their members' names. `keys`: the key directory of all sites; without it they have no keys."""

    def __init__(
        self,
        directory: Path,
        sites: dict[str, str],
        settings: dict[str, Any],
        options: tuple[str, ...] = (),
        keys: Path | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.sites = sites
        self.urls = {name: f"http://{Physical(host, free_port())}" for names in sites.values() for name in names}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._directory = directory
        self._settings = settings
        self._options = options
        self._keys = keys
        self._host = host
        self._bridges = {name: str(Physical(host, free_port())) for name in self.urls}
        self._members = {name: Physical(host, free_port()) for name in self.urls}
        self._groups = {site: draw_group() for site in sites}

    def start(self, name: str, *options: str) -> None:
        """Start a member, or start it again. In an option {name} stands for its name."""
        [site] = [site for site, names in self.sites.items() if name in names]
        config = self._directory / f"{name}.yaml"
        config.write_text(json.dumps(self._configuration(site, name)))
        command = [sys.executable, "-m", "relay", "node", str(config), "--name", name]
        command += ["--insecure"] if self._keys is None else ["--keys", str(self._keys / site)]
        command += ["--status", str(self._directory / f"{name}.sock"), "--http", self.urls[name].removeprefix("http://")]
        with (self._directory / f"{name}.log").open("ab") as log:
            every = [option.format(name=name) for option in (*self._options, *options)]
            self.processes[name] = subprocess.Popen(tie([*command, *every]), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """Kill a member without a goodbye."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def status(self, name: str) -> dict[str, Any]:
        """Return a member's status."""
        with urlopen(f"{self.urls[name]}/status", timeout=10) as answer:
            status: dict[str, Any] = json.load(answer)
        return status

    def post(self, name: str, text: str) -> None:
        """Publish through a member."""
        with urlopen(Request(f"{self.urls[name]}/messages", text.encode(), method="POST"), timeout=20) as answer:
            answer.read()

    def until_ready(self) -> None:
        """Wait until all living members see each other, and the sites are linked."""
        living = [name for name, process in self.processes.items() if process.poll() is None]
        for name in living:
            until(lambda name=name: self._is_ready(name, len(living)))  # type: ignore[misc]

    def _is_ready(self, name: str, members: int) -> bool:
        with suppress(URLError, ConnectionError), urlopen(f"{self.urls[name]}/readyz?members={members}", timeout=10):
            return True
        return False

    def _configuration(self, site: str, name: str) -> dict[str, Any]:
        group, port = self._groups[site]
        transport = {"interface": "127.0.0.1", "multicast_group": group, "multicast_port": port}
        discovery: dict[str, Any] = {"join_wait_s": 0.3}
        if is_ipv6(self._host):  # its loopback interface has no multicast
            transport = {"ipv6": True, "interface": self._host, "multicast": False, "port": self._members[name].port}
            discovery["initial_hosts"] = [str(self._members[each]) for each in self.sites[site]]
        peers = {other: [self._bridges[each] for each in names] for other, names in self.sites.items() if other != site}
        return {
            "site": site,
            "transport": transport,
            "discovery": discovery,
            "relay": {"bridge": {"bind": self._bridges[name], "peers": peers}},
            **self._settings,
        }


def until(done: Callable[[], bool]) -> None:
    """Wait for something that happens outside this process."""
    ends = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < ends
        time.sleep(0.02)


@contextmanager
def node_sites(
    directory: Path, sites: dict[str, str], *options: str, keys: Path | None = None, **settings: Any
) -> Iterator[NodeSites]:
    """Sites by their names, each with its members, a letter each: {"NYC": "AB", "SFO": "DE"}. All are ready in the block.

    With the setting `ipv6` their addresses are of IPv6.
    """
    host = "::1" if settings.pop("ipv6", False) else "127.0.0.1"
    running = NodeSites(directory, sites, settings, options, keys, host)
    try:
        for name in running.urls:
            running.start(name)
        running.until_ready()
        yield running
    finally:
        for process in running.processes.values():
            process.kill()
            process.wait()
