"""A site that starts late takes a large state over the bridge while the other one writes, and relays are killed
half-way.

    python -m tests.relay.node.late_site MEGABYTES

Everything is in one process, datagrams in memory, the bridge over TCP on the loopback interface.
Prints one line of JSON with the growth of the memory.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig
from relay.site_state.config import SiteStateSettings
from sitestack.config import ProtocolsConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.model.address import ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.message import Message, Scope
from tests.relay.node.test_relay_channel import World

#: Messages a second.
RATE = 500.0
#: Bytes of the digests in front of the ballast, padded.
HEAD_BYTES = 4_096


@dataclass
class Replica:
    """An application: a ballast that makes its state large, and a digest of each origin's messages, in order."""

    ballast: bytes = b""
    digests: dict[str, list[Any]] = field(default_factory=dict)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    channel: RelayChannel | None = None
    has_state: bool = False

    def get_state(self) -> bytes:
        head = json.dumps(self.digests).encode()
        assert len(head) <= HEAD_BYTES
        return head.ljust(HEAD_BYTES) + self.ballast

    def set_state(self, data: bytes) -> None:
        self.digests = json.loads(data[:HEAD_BYTES])
        self.ballast = data[HEAD_BYTES:]
        self.has_state = True

    def apply(self, message: Message) -> None:
        """A message that is not the next one of its origin ends it."""
        source = message.source.original if isinstance(message.source, ProxyUUID) else message.source
        last, digest = self.digests.get(key := source.hex(), [-1, ""])
        n = int(message.payload.split(b" ")[0])
        assert n == last + 1, (key, last, n)
        self.digests[key] = [n, hashlib.sha256(digest.encode() + message.payload).hexdigest()]


class Run(World):
    """The two sites."""

    def __init__(self, state_bytes: int) -> None:
        super().__init__({"NYC": ("A", "B", "C"), "SFO": ("D", "E")})
        self.state_bytes = state_bytes
        self.replicas: dict[str, Replica] = {}
        #: The number of the last message; and whether more are written.
        self.written = -1
        self.writes = True

    def config(self, site: str, name: str) -> NodeConfig:
        config = super().config(site, name)
        protocols = ProtocolsConfig(
            failure_detection=FailureDetectionConfig(heartbeat_interval_s=0.2, timeout_s=2.0, verify_timeout_s=1.0),
            state_transfer=StateTransferConfig(state_bytes_max=self.state_bytes + HEAD_BYTES, ask_interval_s=0.5),
        )
        state = SiteStateSettings(("NYC",)) if site == "SFO" else SiteStateSettings()
        return replace(config, protocols=protocols, relay=replace(config.relay, state=state))

    async def run(self, name: str, ballast: bytes, *, task_status: trio.TaskStatus[Replica]) -> None:
        """Be a member until it is cancelled, and that is a crash."""
        [site] = [site for site, names in self.sites.items() if name in names]
        replica = self.replicas[name] = Replica(ballast)
        network = self.networks[site]
        with replica.scope:
            async with open_channel(
                self.config(site, name),
                transport=network.open(),
                get_state=replica.get_state,
                set_state=replica.set_state,
            ) as replica.channel:
                task_status.started(replica)
                async for event in replica.channel:
                    if isinstance(event, Message) and event.scope is Scope.ALL:
                        replica.apply(event)

    async def write(self, name: str) -> None:
        """So many messages a second, as well as it goes."""
        channel = self.replicas[name].channel
        assert channel is not None
        began = trio.current_time()
        with suppress(LocalError):
            while self.writes:
                self.written += 1
                await channel.send(b"%d %s" % (self.written, b"x" * 100))
                await trio.sleep_until(max(began + self.written / RATE, trio.current_time()))

    def kill(self, name: str) -> None:
        """A process that is killed keeps no memory."""
        self.replicas.pop(name).scope.cancel()

    def arrived(self, name: str) -> float:
        """How much of the state has come to a member, of 1."""
        channel = self.replicas[name].channel
        if channel is None or self.replicas[name].has_state:
            return 1.0
        arrived, total = channel.state_arrived
        return arrived / total if total else 0.0

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():  # noqa: ASYNC110 (no event)
            await trio.sleep(0.02)

    def agree(self, names: str) -> bool:
        """Whether these have the same state, with all that was written."""
        states = [self.replicas[name].digests for name in names]
        return all(each == states[0] for each in states) and [last for last, _ in states[0].values()] == [self.written]


async def tell(run: Run) -> dict[str, Any]:
    """The story; returns its figures."""
    ballast = bytes(1 << 20) * (run.state_bytes >> 20)
    async with trio.open_nursery() as nursery:
        for name in "ABC":
            await nursery.start(run.run, name, ballast)
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        nursery.start_soon(run.write, "C")
        await run.until(lambda: run.written > RATE)
        await nursery.start(run.run, "D", b"")
        await run.until(lambda: run.arrived("D") > 0.3)
        run.kill("A")
        await run.until(lambda: run.arrived("D") > 0.6)
        await nursery.start(run.run, "E", b"")
        run.kill("D")
        await run.until(lambda: run.replicas["E"].has_state)
        enough = run.written + RATE
        await run.until(lambda: run.written > enough)
        run.writes = False
        await run.until(lambda: run.agree("BCE"))
        same = all(run.replicas[name].ballast == ballast for name in "BCE")
        nursery.cancel_scope.cancel()
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"state_bytes": run.state_bytes, "same": same, "grew_bytes": (peak_kb - before_kb) * 1024}


if __name__ == "__main__":
    print(json.dumps(trio.run(tell, Run(int(sys.argv[1]) << 20))))
