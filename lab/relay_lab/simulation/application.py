"""The application of a member, whose state is the list of its deliveries: what it reads, sends with keys and asks.

Its invariants: states at rest (M7), keys (K1), and the results of calls and of `flushed` (K2).
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any, get_args

import trio

from relay_lab.sim.lies import opened
from relay_lab.sim.process import Process
from relay_lab.sim.tasks import Tasks
from relay_lab.simulation.channels import Deliveries, SimulatedChannel
from relay_lab.simulation.plan import Plan
from sitestack.channel.receiving.inbox import Delivery, cost_bytes
from sitestack.channel.receiving.state_handover import SharedState
from sitestack.channel.sending.sending import Mode, Reach
from sitestack.config import SiteConfig
from sitestack.model.address import Address
from sitestack.model.envelope import KEY
from sitestack.model.errors import LocalError, StateUnavailable
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Batch, Scope

#: A multicast: its site, the UUID of its origin, its scope and its number.
Item = tuple[str, str, int, int]
#: Seconds for which an application may read nothing; it reads at once in most cases.
BUSY_S_MAX = 0.3
#: Seconds between two looks of an application that reads nothing.
TAKE_S = 0.1
SCOPES: tuple[Reach, ...] = get_args(Reach)
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(slots=True)
class Ledger:
    """What all applications of a world know together."""

    #: The keys that were sent, in the order of their first messages.
    keys: list[str] = field(default_factory=list)
    applications: dict[bytes, Application] = field(default_factory=dict)
    deliveries: dict[bytes, Deliveries] = field(default_factory=dict)


class Application:
    def __init__(
        self, process: Process, config: SiteConfig, plan: Plan, shares_state: bool, tasks: Tasks, ledger: Ledger
    ) -> None:
        self._process = process
        #: The scopes of the messages in its state; a state for other sites has none of scope SITE.
        self._scopes = (Scope.ALL,) if plan.state == "across" else (Scope.ALL, Scope.SITE)
        self._rng = random.Random(f"application {process.local.address.hex()}")
        self._sites = [name for name, _ in plan.sites]
        self._tasks = tasks
        self._ledger = ledger
        self._name = f"{process.local.site}/{process.local.name}"
        self._asks: list[Callable[[random.Random], Awaitable[None]]] = []
        if plan.keys != "none":
            self._asks += [self._send_with_key] * 2
        if plan.calls:
            self._asks += [self._call, self._flush]
        #: Bytes that it reads in a second, until when (s), and for how many read ones it still has to rest.
        self._rate, self._slow_until, self._owed_bytes = 0.0, 0.0, 0.0
        self._at_exclusion: Callable[[], bool] = lambda: False
        self.shares_state = shares_state
        state = SharedState(self._get, self._set) if shares_state else None
        self.channel = SimulatedChannel(process, config, state, lambda: self._at_exclusion())
        self.channel.desk.deliveries = ledger.deliveries
        ledger.applications[bytes(process.local.address)] = self
        self._deliveries = ledger.deliveries[bytes(process.local.address)] = Deliveries()
        #: When (s) the state began, at the first of the members that handed it on.
        self.begun = process.schedule.now
        self.items: list[Item] = []
        #: The gaps that came with the state or after it.
        self.gaps: list[Gap] = []
        #: The keys of the messages that it was shown, or that its state has; those that its stack delivered.
        self.keys: list[str] = []
        self._arrived: dict[str, list[Item]] = defaultdict(list)
        self._questions: Counter[bytes] = Counter()
        self._sent = 0
        self._scope = trio.CancelScope()
        tasks.start(self._run)

    @property
    def waits(self) -> bool:
        """Whether it still waits for the state of another member, or has events in its inbox."""
        return self.channel.waits

    def follow(self, events: Sequence[Event | Frame]) -> None:
        """Let the channel have the events of a turn."""
        for event in events:
            self._deliveries.follow(event)
            batch = event.batch if isinstance(event, Frame) else None
            if batch is not None and batch.target is None and batch.has_envelopes:
                for item, (envelope, _) in zip(_items(batch), opened(batch), strict=False):
                    if envelope.key:
                        self._arrived[envelope.key.decode()].append(item)
        self.channel.follow(events)
        self._tasks.soon()

    def end(self) -> None:
        """The process has died."""
        self.channel.close()
        self._scope.cancel()
        self._tasks.soon()

    def slow_down(self, bytes_per_s: float, until: float, exclude: Callable[[], bool]) -> None:
        """Read slowly, or nothing, until then; `exclude` is called if the site has waited too long."""
        self._rate, self._slow_until, self._at_exclusion = bytes_per_s, until, exclude
        self._start(self.channel.watch_backlog)

    def hurry(self) -> None:
        self._slow_until = 0.0

    def decide(self, rng: random.Random) -> None:
        if self._asks:
            self._start(self._ask, rng.choice(self._asks), random.Random(rng.random()))

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _start(self, work: Callable[..., Awaitable[object]], *args: Any) -> None:
        if not self._scope.cancel_called:
            self._nursery.start_soon(work, *args)
            self._tasks.soon()

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                try:
                    await self._read()
                except StateUnavailable:  # a program ends, and so its member leaves
                    self._process.leave()

    async def _read(self) -> None:
        async for item in self.channel.batches():
            if isinstance(item, Gap):
                self.gaps.append(item)
            elif isinstance(item, Delivery):
                await self._take(item)
                await self._rest(cost_bytes(item))

    async def _rest(self, read_bytes: int) -> None:
        if self._rng.random() < 0.1:
            await trio.sleep(BUSY_S_MAX * self._rng.random())
        self._owed_bytes += read_bytes
        while self._process.is_paused or (self._is_slow() and self._owed_bytes > 0):
            await trio.sleep(TAKE_S)
            self._owed_bytes -= self._rate * TAKE_S
        if not self._is_slow():
            self._owed_bytes = 0.0

    def _is_slow(self) -> bool:
        return self._process.schedule.now < self._slow_until

    async def _take(self, item: Delivery) -> None:
        batch = item.batch
        # Which message of a key is shown depends on the order at this member.
        if batch.target is None and batch.scope in self._scopes and not batch.keyed():
            self.items += _items(batch)
        for message in item.sound_messages(lambda reason: None) if batch.has_envelopes else ():
            if KEY in message.headers:
                self.keys.append(message.headers[KEY].decode())
            if message.call:
                self._questions[message.payload] += 1
                try:
                    await self.channel.answer(message, _answer(message.payload, self._process.local.address))
                except LocalError:  # its site lacks the majority, or this member leaves
                    continue

    async def _ask(self, how: Callable[[random.Random], Awaitable[None]], rng: random.Random) -> None:
        with suppress(LocalError):
            await how(rng)

    async def _send_with_key(self, rng: random.Random) -> None:
        """Send a message with a new key, or with one that any member has used."""
        keys = self._ledger.keys
        if not keys or rng.random() < 0.5:
            keys.append(self._unique())
        key = rng.choice(keys[-20:])
        await self.channel.send(key.encode() * rng.choice((1, 1, 20)), rng.choice(SCOPES), key=key)

    async def _flush(self, rng: random.Random) -> None:
        await self.channel.flushed(rng.choice(SCOPES), every=rng.choice(("member", "site")), timeout_s=rng.uniform(1.0, 20.0))

    async def _call(self, rng: random.Random) -> None:
        question, targets = self._unique().encode(), None
        if rng.random() < 0.3:
            # As in `load.py`: a lying site may name members of others as its own.
            known = [member for member in self.channel.remote_members() if member.site in self._sites]
            targets = rng.sample(known, rng.randint(min(1, len(known)), len(known)))
        timeout_s = rng.uniform(1.0, 20.0)
        result = await self.channel.call(
            question, targets, mode=rng.choice(MODES), scope=rng.choice(SCOPES), timeout_s=timeout_s
        )
        self.channel.desk.covered["call answered"] += len(result.answers)
        for member, answer in result.answers.items():
            asked = self._ledger.applications.get(bytes(member))
            times = 0 if asked is None else asked._questions[question]
            if answer != _answer(question, member) or times != 1:
                self.channel.desk.violations.append(f"a call has an answer of {member!r}, which was asked {times} times")

    def _unique(self) -> str:
        self._sent += 1
        return f"{self._process.local.address.hex()} {self._sent}"

    # -- the state -----------------------------------------------------------------------------------------------------

    def _get(self) -> bytes:
        return json.dumps([self.begun, self.items, self.keys]).encode()

    def _set(self, data: bytes) -> None:
        self.begun, items, self.keys = json.loads(data)
        self.items = [(site, origin, scope, number) for site, origin, scope, number in items]
        self.gaps.clear()

    def wrong_keys(self) -> Iterator[str]:
        """Report keys whose messages were shown twice, or were delivered and not shown."""
        if not self._process.alive:
            return
        if twice := [key for key, times in Counter(self.keys).items() if times > 1]:
            yield f"{self._name}: was shown {len(twice)} keys twice, such as {twice[0]}"
        if lost := [key for key in self._arrived if key not in self.keys and not self._is_gap(self._arrived[key])]:
            yield f"{self._name}: was never shown {len(lost)} keys that were delivered, such as {lost[0]}"

    def _is_gap(self, items: Sequence[Item]) -> bool:
        return any(_holds(gap, item) for gap in self.gaps for item in items)


def _items(batch: Batch) -> list[Item]:
    name = batch.site, batch.origin.hex(), int(batch.scope)
    return [(*name, number) for number in range(batch.first, batch.last + 1)]


def _holds(gap: Gap, item: Item) -> bool:
    return (gap.site, gap.origin.hex(), int(gap.scope)) == item[:3] and gap.first <= item[3] <= gap.last


def _answer(question: bytes, member: Address) -> bytes:
    return question + bytes(member)


def find_violations(
    members: Sequence[tuple[Process, Application]],
    parted: Mapping[str, int],
    is_total: bool,
    load_began: float,
    history: Mapping[tuple[str, str, str], int] = MappingProxyType({}),
) -> Iterator[str]:
    """Report states at rest that have a message twice, lack one without a gap, or differ in its order.

    `history`: a site, and the site and origin of messages -> the number at which the site began. What precedes it is no
    loss without an earlier message of this origin (R29).
    """
    living = [(process, application) for process, application in members if process.alive and not application.waits]
    for process, application in living:
        label = f"{process.local.site}/{process.local.name}"
        if twice := [item for item, times in Counter(application.items).items() if times > 1]:
            yield f"{label}: its state has {len(twice)} messages twice, such as {twice[0]}"
    whole = [each for each in living if each[0].local.site not in parted]
    for site, group in groupby(sorted(whole, key=lambda each: each[0].local.site), lambda each: each[0].local.site):
        (first, model), *others = group
        for process, application in others:
            label = f"{site}/{process.local.name} and {site}/{first.local.name}"
            for one, other in ((model, application), (application, model)):
                if lost := _lacking(one.items, other):
                    yield f"{label}: one state has {len(lost)} messages that the other one lacks, such as {lost[0]}"
            if is_total and _common(model, application) != _common(application, model):
                yield f"{label}: their states have another order"
        for process, application in whole:
            # A state that began before the load has everything of the other sites too.
            if process.local.site != site and application.begun < load_began and model.begun < load_began:
                sent = [item for item in model.items if item[0] == site and item[2] == Scope.ALL]
                begun = {origin: history.get((process.local.site, site, origin), 0) for origin in {item[1] for item in sent}}
                sent = [item for item in sent if item[3] >= begun[item[1]] or _is_before(application, item)]
                if lost := _lacking(sent, application):
                    label = f"{process.local.site}/{process.local.name}"
                    yield f"{label}: its state lacks {len(lost)} messages of {site}, such as {lost[0]}"


def _is_before(application: Application, later: Item) -> bool:
    """Whether the state has an earlier message of that origin."""
    return any(item[:3] == later[:3] and item[3] < later[3] for item in application.items)


def _lacking(items: Sequence[Item], application: Application) -> list[Item]:
    """Return the items that an application has not, and that are in no gap of it."""
    gaps: dict[tuple[str, str, int], list[Gap]] = {}
    for gap in application.gaps:
        gaps.setdefault((gap.site, gap.origin.hex(), int(gap.scope)), []).append(gap)
    missing = sorted(set(items).difference(application.items))
    return [item for item in missing if not any(gap.first <= item[3] <= gap.last for gap in gaps.get(item[:3], ()))]


def _common(one: Application, other: Application) -> list[Item]:
    items = set(other.items)
    return [item for item in one.items if item in items]
