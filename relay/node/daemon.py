"""Foreground process of one member: input lines, events, status, and signals."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import structlog
import trio

from relay.events import GlobalView, Role, Unreachable
from relay.journal import JournalOptions, JournalStatistics, JournalStore
from relay.journal.retention import Retention
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.reload import PEERS, applied, compare
from relay.node.config.settings import NodeConfig
from relay.node.http.credentials import Credentials
from relay.node.http.event_ring import EventRing
from relay.node.output.event_json import EventLines
from relay.node.output.lines import RETRY_S, EventOutput, LineSink, LineSource
from relay.node.output.log_output import LogOutput
from relay.node.output.logs import set_level
from relay.node.status.control_socket import obey_orders, open_control_socket
from relay.node.status.histogram import Histogram
from relay.node.status.loop_watch import LoopWatch
from relay.node.status.status import Identity, NodeStatus, SlowMembers
from relay.node.status.status_socket import answer_status, open_status_socket, run_directory, socket_path
from relay.node.status.verdict import judge
from sitestack.channel.receiving.inbox import Delivery
from sitestack.journal.recorder import Write
from sitestack.model.address import Physical, ProxyUUID
from sitestack.model.errors import ChannelClosed, LocalError, NoMajority
from sitestack.model.events import Event
from sitestack.model.gap import Gap
from sitestack.model.view import View
from sitestack.stack.layer import Local
from sitestack.transport.accepting import Admissions

#: Seconds between two checks for problems.
WATCH_INTERVAL_S = 1.0
#: Seconds between two trims of free memory. A trim costs 0.05 ms, and about 0.06 ms for each
#: megabyte that it frees.
TRIM_INTERVAL_S = 5.0
#: Seconds for the last events to be read.
LAST_EVENTS_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeOptions:
    #: A file, or "-" for standard input.
    publish: str | None = None
    #: A file, or "-" for standard output.
    events: str | None = None
    #: None: in the run directory, named after site and member.
    status: Path | None = None
    #: Write readable lines instead of JSON, and omit events from the log.
    readable: bool = False
    #: Rebuilds the configuration on SIGHUP; None: no reload.
    reload: Callable[[], NodeConfig] | None = None


async def run_node(config: NodeConfig, options: NodeOptions, log: LogOutput | None = None) -> None:
    """Run a member until SIGTERM or SIGINT; a second signal ends it at once.

    `log`: output whose errors and lost lines appear in the status. Raises LocalError if the member
    cannot join or continue.
    """
    config = replace(config, name=config.name or f"{socket.gethostname()}-{os.getpid()}")
    path = options.status or socket_path(run_directory(), config.site, config.name)
    node = _Node(config, options, log)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with (
            open_status_socket(path) as listener,
            open_control_socket(path) as orders,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(answer_status, listener, node.describe, node.status_admissions)
            nursery.start_soon(obey_orders, orders, node.switch_site, node.status_admissions)
            if config.http.bind is not None:
                await _start_http(config, config.http.bind, node, nursery)
            nursery.start_soon(node.loop.run)
            nursery.start_soon(give_back_memory)
            nursery.start_soon(node.obey, signals, nursery)
            await node.run()
            nursery.cancel_scope.cancel()


class _Node:
    def __init__(self, config: NodeConfig, options: NodeOptions, log: LogOutput | None = None) -> None:
        self.credentials = Credentials(config)
        self.status_admissions, self.http_admissions = Admissions(), Admissions()
        self.loop = LoopWatch()
        self._config = config
        self._log_output = log
        bytes_max = config.protocols.batching.message_bytes_max
        self._source = None if options.publish is None else LineSource(options.publish, bytes_max)
        self._sink = None if options.events is None else LineSink(options.events)
        self._readable = options.readable
        self._reload = options.reload
        #: True if the configuration changed before this member joined.
        self._reread_later = False
        secure = not config.security.insecure
        identity = Identity(config.site, config.name, os.getpid(), version("sitestack"), secure)
        self._status = NodeStatus(identity, trio.current_time())
        self._channel: RelayChannel | None = None
        self._events: EventOutput | None = None
        self._store: JournalStore | None = None
        self.ring = None if config.http.bind is None else EventRing(config.site)
        self._slow = SlowMembers()
        #: While HTTP is on: delays of each other site, and of own multicasts. Bound: the configured or known sites.
        self._lag: dict[str, Histogram] = {}
        self._delivery = Histogram()
        self._log = structlog.get_logger().bind(site=config.site, name=config.name)

    def serves_at(self, url: str) -> None:
        self._status.identity = replace(self._status.identity, http=url)

    def describe(self) -> dict[str, Any]:
        channel = self._channel
        statistics, levels = (None, {}) if channel is None else (channel.statistics(), channel.levels())
        if self.ring is not None:
            levels = {**levels, **{f"http.{name}": level for name, level in self.ring.levels().items()}}
        journal = None if self._store is None else self._store.statistics()
        now, process = trio.current_time(), self._statistics()
        status = self._status.to_json(statistics, levels, journal, self._sentences(channel), now, process)
        site_keys = None if channel is None else channel._site_keys
        keys = None if site_keys is None else site_keys.to_json()
        dashboards = dict(self._config.http.dashboards)
        return {**status, "keys": keys, "dashboards": dashboards, "verdict": judge(status, self._config.peer_sites())}

    def channel(self) -> RelayChannel | None:
        return self._channel if self._status.state == "member" else None

    async def switch_site(self, order: dict[str, Any]) -> dict[str, Any]:
        """Switch another site offline or online by an operator's order. Raises LocalError."""
        site, offline, channel = order.get("site"), order.get("offline"), self.channel()
        if not isinstance(site, str) or not isinstance(offline, bool):
            raise LocalError("this is not an order.")
        if channel is None:
            raise LocalError(f"{self._config.name}@{self._config.site} is not a member now (state: {self._status.state}).")
        return {"done": await channel.switch_site(site, offline=offline), "of": self._config.site}

    def count_sent(self, count: int) -> None:
        self._status.sent(count)

    def _statistics(self) -> dict[str, object]:
        return {
            "lost_event_lines": 0 if self._events is None else self._events.lost_lines,
            "lost_log_lines": 0 if self._log_output is None else self._log_output.lost_lines,
            "refused_status": self.status_admissions.refused,
            "refused_http": self.http_admissions.refused,
            "stalls": self.loop.stalls,
            "stalled_s": round(self.loop.stalled_s, 3),
            "loop_delay": self.loop.delays,
            "lag": self._lag,
            "delivery": self._delivery,
        }

    async def run(self) -> None:
        if self._config.security.insecure:
            self._log.warning("insecure: any host that reaches the ports can read and send")
        if self._config.site in self._config.relay.bridge.peers:
            self._log.info("relay.bridge.peers includes this site: ignored")
        async with open_channel(self._config, journal=self._journal if self._config.journal.directory else None) as channel:
            self._channel = channel
            self._status.joined(channel.address)
            if self._reread_later:
                self._reread_configuration()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, channel)
                if self._source is not None:
                    nursery.start_soon(self._publish, channel, self._source)
                await self._listen(channel)
                nursery.cancel_scope.cancel()
        self._log.info("left")

    async def obey(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        """Leave at the first signal; end at once at the second, or while still joining.

        SIGHUP rereads keys, certificates and configuration.
        """
        async for number in signals:
            if number == signal.SIGHUP:
                self._reread_keys()
                self._reread_configuration()
                continue
            self._log.info("leaving", signal=signal.Signals(number).name)
            if self._channel is None or self._status.state == "leaving":
                nursery.cancel_scope.cancel()
                return
            self._status.state = "leaving"
            nursery.start_soon(self._leave, self._channel, nursery)

    def _reread_keys(self) -> None:
        self._log.info("reloading keys")
        self.credentials.reread()
        if self._channel is not None:
            self._channel._reread_keys()

    def _reread_configuration(self) -> None:
        """Apply the changes that may take effect, and log the others.

        An invalid file changes nothing.
        """
        channel = self._channel
        if self._reload is None:
            return
        if channel is None:
            self._reread_later = True
            self._log.info("configuration reload deferred until joined")
            return
        try:
            wanted = self._reload()
        except LocalError as error:
            self._log.error("configuration reload failed", why=str(error))
            return
        wanted = replace(wanted, name=wanted.name or self._config.name)
        found = compare(self._config, wanted, can_prove=channel._credentials is not None)
        for sentence in found.refused:
            self._log.warning("configuration change needs a restart", what=sentence)
        if found.changed:
            # Rejected changes stay different, so that the next reload reports them again.
            self._config = applied(self._config, found.changed)
            if self._log_output is not None:
                set_level(self._log_output, self._config.log.level)
            channel._change_budget(self._config.relay.budget.entries, self._config.held_bytes_max())
            if PEERS in found.changed:
                channel._change_peers(self._config)
        if found.changed or found.refused:
            self._log.info("configuration reloaded", changed=found.changed, refused=len(found.refused))
        else:
            self._log.info("configuration unchanged")

    async def _leave(self, channel: RelayChannel, nursery: trio.Nursery) -> None:
        """Leave the site, then wait `LAST_EVENTS_S` for the events to be read."""
        await channel.leave()
        await trio.sleep(LAST_EVENTS_S)
        self._log.warning("last events were not read")
        nursery.cancel_scope.cancel()

    def _journal(self, local: Local) -> Write:
        """Open this member's journal, and return the function that writes records."""
        settings = self._config.journal
        options = JournalOptions(
            Path(settings.directory),
            settings.segment_bytes,
            keep_payloads=settings.keep_payloads,
            strict=settings.strict,
            retention=Retention(settings.retained_bytes_max, settings.retained_s_max),
        )
        self._store = JournalStore(options, local.site, local.address, local.name)
        return self._store.write

    def _sentences(self, channel: RelayChannel | None) -> list[str]:
        return [*self._problems(channel), *self._warnings(channel)]

    def _problems(self, channel: RelayChannel | None) -> list[str]:
        journal = JournalStatistics() if self._store is None else self._store.statistics()
        events = "" if self._events is None else self._events.trouble
        lines = "" if self._source is None else self._source.trouble
        log = "" if self._log_output is None else self._log_output.trouble
        errors = {
            **({} if channel is None else channel.problems()),
            "journal.directory": journal.error,
            "journal.retained_bytes_max": journal.retention_error,
            "--publish": lines and f"cannot be read, so no more lines are published: {lines}",
            "--events": events and f"cannot be written: {events}",
            "log": log and f"cannot be written: {log}",
            "status socket": _refused(self.status_admissions),
            "http": _refused(self.http_admissions),
            "senders": "" if channel is None else self._slow.look(channel._waited_for(), trio.current_time()),
        }
        return _as_sentences(errors)

    @staticmethod
    def _warnings(channel: RelayChannel | None) -> list[str]:
        return [] if channel is None else _as_sentences(channel.warnings())

    async def _watch(self, channel: RelayChannel) -> None:
        known: list[str] = []
        while True:
            if channel.excluded is not None:
                raise channel.excluded
            problems, warnings = self._problems(channel), self._warnings(channel)
            for problem in problems:
                if problem not in known:
                    self._log.error("problem", what=problem)
            for warning in warnings:
                if warning not in known:
                    self._log.warning("problem ahead", what=warning)
            known = [*problems, *warnings]
            if self.ring is not None:
                for site, behind_s in channel.lags.items():
                    self._lag.setdefault(site, Histogram()).observe(behind_s)
                if (trip_s := channel._take_trip()) is not None:
                    self._delivery.observe(trip_s)
            await trio.sleep(WATCH_INTERVAL_S)

    async def _publish(self, channel: RelayChannel, source: LineSource) -> None:
        try:
            async for line in source.lines():
                for attempt in count():
                    try:
                        await channel.send(line)
                    except ChannelClosed:
                        return
                    except NoMajority as error:
                        if attempt == 0:
                            self._log.warning("publishing waits", why=str(error))
                        await trio.sleep(RETRY_S)
                        continue
                    except LocalError as error:
                        self._log.error("line not published", why=str(error))
                    else:
                        self._status.sent(1)
                    break
        except OSError as error:
            source.trouble = error.strerror or str(error)

    async def _listen(self, channel: RelayChannel) -> None:
        writer = EventLines(channel.site, readable=self._readable)
        if self._sink is not None:
            self._events = EventOutput(self._sink, writer.lost)
        async for item in channel.batches():
            try:
                await self._hear(item, writer)
            except BrokenPipeError:
                self._log.info("event reader closed")
                return

    async def _hear(self, item: Delivery | View | Event, writer: EventLines) -> None:
        self._status.observe(item)
        if self.ring is not None:
            self.ring.put(item, time.time())
        if not self._readable:
            self._report(item)
        if self._events is not None and (lines := writer.lines(item)):
            await self._events.write(lines, trio.current_time())

    def _report(self, item: Delivery | View | Event) -> None:
        if isinstance(item, View):
            self._log.info("view", id=str(item.id), members=list(item.names))
        elif isinstance(item, GlobalView):
            self._log.info("global view", members=list(map(item.name_of, item.members)), down=list(item.down))
        elif isinstance(item, Role):
            self._log.info("role", role=item.duty.value, relays_to=list(item.sites))
        elif isinstance(item, Gap):
            origin, lost = self._name(ProxyUUID(item.origin, item.site)), item.last - item.first + 1
            self._log.warning("gap", site=item.site, origin=origin, messages=lost, reason=item.reason.value)
        elif isinstance(item, Unreachable):
            target, certainty = self._name(item.target), item.certainty.value
            self._log.warning("unreachable", target=target, reason=item.reason.value, certainty=certainty)

    def _name(self, member: ProxyUUID) -> str:
        return str(member) if self._channel is None else self._channel.name_of(member)


def _as_sentences(found: Mapping[str, str]) -> list[str]:
    return [f"{where}: {what}." for where, what in found.items() if what]


def _refused(admissions: Admissions) -> str:
    return admissions.trouble and f"the last connection was rejected: {admissions.trouble}"


async def _start_http(config: NodeConfig, bind: Physical, node: _Node, nursery: trio.Nursery) -> None:
    """Serve HTTP. The late import saves as much memory as the rest of a node takes."""
    from relay.node.http.app import Served, make_app  # noqa: PLC0415
    from relay.node.http.server import serve_http  # noqa: PLC0415

    assert node.ring is not None, "a node that serves has a ring"
    served = Served(
        node.describe,
        node.ring,
        node.channel,
        node.count_sent,
        version("sitestack"),
        is_secure=not config.security.insecure,
        streams_max=config.http.streams_max(),
    )
    tokens, tls = node.credentials.tokens, node.credentials.tls
    place = await nursery.start(serve_http, make_app(served, tokens), bind, node.http_admissions, config.http, tls, tokens)
    node.serves_at(replace(config.http, bind=Physical(bind.host, place.port)).url())


def find_trim() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`, whose argument is the number of bytes to keep; None with another libc."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


async def give_back_memory() -> None:
    """Return free memory to the system at intervals: glibc keeps it after a burst.

    Runs until cancelled; returns at once with another libc.
    """
    trim = find_trim()
    while trim is not None:
        await trio.sleep(TRIM_INTERVAL_S)
        trim(0)
