"""Random programs over real channels: trio tasks, a network in memory, a clock that jumps. Their history is judged.

A program opens, crashes and closes members of a site, whose tasks send with and without keys, call, flush and read. Each
operation may be cancelled at any of its checkpoints. The promises judge the journals, and `_judge` what applications saw.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import get_args
from unittest.mock import patch

import trio
import trio._core._run as trio_run
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.channel.sending.sending import Mode, Reach
from sitestack.config import SiteConfig
from sitestack.journal import records
from sitestack.model.address import Address, Physical
from sitestack.model.envelope import KEY
from sitestack.model.errors import LocalError
from sitestack.model.gap import Gap
from sitestack.model.message import Message, Scope
from sitestack.promises import History, check_all
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import NYC

#: Seconds of a program, after which nothing more is sent, and until everything has settled.
PROGRAM_S, SETTLE_S = 40.0, 120.0
MODES: tuple[Mode, ...] = get_args(Mode)
SCOPES: tuple[Reach, ...] = get_args(Reach)


class Canceller(trio.abc.Instrument):
    """Cancels the scope of a task at a given one of its next checkpoints."""

    def __init__(self) -> None:
        self.due: dict[trio.lowlevel.Task, tuple[int, trio.CancelScope]] = {}

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task in self.due:
            number, scope = self.due.pop(task)
            if number > 1:
                self.due[task] = (number - 1, scope)
            else:
                scope.cancel()


@dataclass
class Member:
    name: str
    crash: trio.CancelScope = field(default_factory=trio.CancelScope)
    records: list[records.Record] = field(default_factory=list)
    channel: Channel | None = None
    is_running: bool = False
    #: What the application was shown: messages, gaps, and its state, which is the list of its plain multicasts.
    shown: list[Message] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    asked: Counter[bytes] = field(default_factory=Counter)

    def get_state(self) -> bytes:
        return json.dumps(self.items).encode()

    def set_state(self, data: bytes) -> None:
        assert self.shown == [], "the state comes first"
        self.items = json.loads(data)


class Swarm:
    """One program. `faults`: sentences on broken promises."""

    def __init__(self, seed: int) -> None:
        self.faults: list[str] = []
        self.covered: Counter[str] = Counter()
        self.members: dict[str, Member] = {}
        self._rng = rng = random.Random(seed)
        self._canceller = Canceller()
        self._loss = rng.choice((0.0, 0.0, 0.02, 0.1))
        #: The member whose datagrams are lost for a while, so that the site splits.
        self._cut: Physical | None = None
        self._splits = rng.random() < 0.3
        self._has_state = rng.random() < 0.5
        self._config = _draw_config(rng)
        self._network = MemoryNetwork(self._allow)
        self._serial = 0
        #: Accepted plain multicasts with their senders; messages that no application may be shown; lists of which a prefix
        #: was sent.
        self.accepted: dict[str, str] = {}
        self.refused: set[bytes] = set()
        self.partly: list[list[str]] = []

    async def run(self) -> None:
        trio.lowlevel.add_instrument(self._canceller)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._live, "A", 0.0, "stay")
            for name in "BCDE"[: self._rng.randint(1, 4)]:
                end = self._rng.choice(("stay", "leave", "crash"))
                nursery.start_soon(self._live, name, self._rng.uniform(0.5, PROGRAM_S / 2), end)
            if self._splits:
                nursery.start_soon(self._split)
            await trio.sleep(PROGRAM_S + SETTLE_S)
            self._judge()
            nursery.cancel_scope.cancel()

    def _allow(self, source: Physical, to: Physical) -> bool:
        return source == to or (self._cut not in (source, to) and self._rng.random() >= self._loss)

    async def _split(self) -> None:
        await trio.sleep(self._rng.uniform(5, 25))
        channels = [each.channel for each in self.members.values() if each.is_running and each.channel is not None]
        [self._cut] = self._rng.choice(channels).transport.physical() if channels else [None]
        await trio.sleep(self._rng.uniform(2, 15))
        self._cut = None

    # -- programs ------------------------------------------------------------------------------------------------------

    async def _live(self, name: str, begin_s: float, end: str) -> None:
        await trio.sleep(begin_s)
        member = self.members[name] = Member(name)
        life_s = self._rng.uniform(0, PROGRAM_S - begin_s)
        if end == "crash":  # perhaps while it joins
            member.crash.deadline = trio.current_time() + life_s
        with member.crash:
            opening = open_channel(
                self._config,
                name=name,
                journal=lambda local: member.records.append,
                transport=self._network.open(),
                get_state=member.get_state if self._has_state else None,
                set_state=member.set_state if self._has_state else None,
            )
            async with opening as channel, trio.open_nursery() as nursery:
                member.channel, member.is_running = channel, True
                nursery.start_soon(self._read, member, channel)
                for _ in range(2):
                    nursery.start_soon(self._write, member, channel)
                if end != "leave":
                    await trio.sleep_forever()
                await trio.sleep(life_s)
                await self._attempt(channel.leave)
                await channel.leave()
                member.crash.cancel()
        member.is_running = False
        self.covered[end] += 1

    async def _attempt(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Do it, and perhaps cancel it at one of its checkpoints; return whether it was done."""
        task = trio.lowlevel.current_task()
        with trio.CancelScope() as scope:
            if number := self._rng.choice((0, 0, 1, 2, 3, 5)):
                self._canceller.due[task] = (number, scope)
            try:
                await work()
            except LocalError:
                return False
            finally:
                self._canceller.due.pop(task, None)
            return True
        self.covered["cancelled"] += 1
        return False

    async def _read(self, member: Member, channel: Channel) -> None:
        events: list[object] = []

        async def take() -> None:
            events.append(await anext(channel))

        with suppress(StopAsyncIteration):
            while channel.excluded is None:
                await self._attempt(take)
                for event in events:
                    await self._show(member, channel, event)
                events.clear()
                if trio.current_time() < PROGRAM_S and self._rng.random() < 0.03:
                    await trio.sleep(self._rng.choice((0.1, 1.0, 15.0)))
        member.is_running = False
        self.covered["excluded"] += channel.excluded is not None

    async def _show(self, member: Member, channel: Channel, event: object) -> None:
        if isinstance(event, Gap):
            member.gaps.append(event)
        elif isinstance(event, Message):
            member.shown.append(event)
            if event.scope is Scope.ALL and not event.call and KEY not in event.headers:
                member.items.append(_name(event.payload))
            if event.call:
                member.asked[event.payload] += 1
                with suppress(LocalError):
                    await channel.answer(event, event.payload + channel.address)

    async def _write(self, member: Member, channel: Channel) -> None:
        rng = self._rng
        kinds = [self._send, self._send_keyed] * 2 + [self._send_many, self._unicast, self._call, self._flush]
        while trio.current_time() < PROGRAM_S and member.is_running:
            await rng.choice(kinds)(member, channel)
            await trio.sleep(rng.choice((0.0, 0.0, 0.01, 0.3, 2.0)))

    def _payload(self, member: Member) -> bytes:
        self._serial += 1
        return f"{member.name}{self._serial} ".encode().ljust(self._rng.choice((10, 10, 100, 3_000)), b".")

    async def _send(self, member: Member, channel: Channel) -> None:
        payload = self._payload(member)
        if await self._attempt(lambda: channel.send(payload)):
            self.accepted[_name(payload)] = member.name
        else:
            self.refused.add(payload)

    async def _send_many(self, member: Member, channel: Channel) -> None:
        many = [self._payload(member) for _ in range(self._rng.randint(1, 60))]
        if await self._attempt(lambda: channel.send_many(many)):
            self.accepted.update(dict.fromkeys(map(_name, many), member.name))
        else:
            self.partly.append(list(map(_name, many)))

    async def _send_keyed(self, member: Member, channel: Channel) -> None:
        payload, key = self._payload(member), f"key{self._rng.randrange(1 + self._serial // 4)}"
        if not await self._attempt(lambda: channel.send(payload, self._rng.choice(SCOPES), key=key)):
            self.refused.add(payload)

    async def _unicast(self, member: Member, channel: Channel) -> None:
        payload, target = self._payload(member), self._rng.choice(channel.view.members)
        if not await self._attempt(lambda: channel.send(payload, target=target, oob=self._rng.random() < 0.3)):
            self.refused.add(payload)

    async def _call(self, member: Member, channel: Channel) -> None:
        question = self._payload(member)
        targets = None if self._rng.random() < 0.7 else [self._rng.choice(channel.view.members)]

        async def ask() -> None:
            result = await channel.call(question, targets, mode=self._rng.choice(MODES), timeout_s=self._rng.uniform(0.1, 20))
            for address, answer in result.answers.items():
                self.covered["answered"] += 1
                times = sum(each.asked[question] for each in self._at(address))
                if answer != question + address or times != 1:
                    self.faults.append(f"{member.name} has an answer of {address!r}, which was asked {times} times")

        await self._attempt(ask)

    async def _flush(self, member: Member, channel: Channel) -> None:
        sent = max([r.last for r in member.records if isinstance(r, records.Send) and r.scope is Scope.ALL], default=0)

        async def flush() -> None:
            result = await channel.flushed(timeout_s=self._rng.uniform(0.1, 20))
            self.covered["flushed"] += result.everywhere
            for each in [each for address in result.has for each in self._at(address)]:
                delivers = [r for r in each.records if isinstance(r, records.Deliver) and r.scope is Scope.ALL]
                if max([r.last for r in delivers if r.origin == channel.address], default=0) < sent:
                    self.faults.append(
                        f"{each.name} lacks one of {sent} messages of {member.name}, and `flushed` says that it has all"
                    )

        await self._attempt(flush)

    def _at(self, address: Address) -> list[Member]:
        return [each for each in self.members.values() if each.channel is not None and each.channel.address == address]

    # -- judgement -----------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        histories = [History.of(each.records, running=each.is_running) for each in self.members.values() if each.records]
        self.faults += map(str, check_all(histories, quiescent=True, total_order=self._config.order == "total").violations)
        living = [each for each in self.members.values() if each.is_running]
        self.covered["messages"] += sum(len(each.shown) for each in living)
        whole = [each for each in living if not each.gaps]
        self.covered["gaps"] += len(living) - len(whole)
        for each in self.members.values():
            self.faults += [f"{each.name}: {what}" for what in self._wrong(each)]
        if self._splits:
            return
        longest = max([each.items for each in whole], key=len, default=[])
        for each in whole:
            if self._config.order == "total" and each.items != longest[len(longest) - len(each.items) :]:
                self.faults.append(f"{each.name}: its {len(each.items)} items are not the last ones of {len(longest)}")
        for many in self.partly:
            if (shown := [name in longest for name in many]) != sorted(shown, reverse=True):
                self.faults.append(f"no prefix of the list from {many[0]} on was sent")
        sent = {name for name, sender in self.accepted.items() if self.members[sender] in living}
        for each in whole if self._has_state else [each for each in whole if each.name == "A"]:
            if missing := sent - {*each.items}:
                self.faults.append(f"{each.name}: {len(missing)} accepted messages are missing, such as {min(missing)}")

    def _wrong(self, member: Member) -> list[str]:
        """Return what this application should not have been shown."""
        found = [f"{message!r} was refused or cancelled" for message in member.shown if message.payload in self.refused]
        keys = Counter(message.headers[KEY] for message in member.shown if KEY in message.headers)
        found += [f"{key!r} was shown {times} times" for key, times in keys.items() if times > 1]
        last: dict[object, int] = {}
        for message in member.shown:
            stream = message.id.origin, message.scope
            if message.scope is not Scope.OOB and message.id.n <= last.get(stream, 0):
                found.append(f"{message!r} came after number {last[stream]}")
            last[stream] = message.id.n
        return found


def run_seed(seed: int) -> Swarm:
    """Run a program; with the same seed the same happens."""
    swarm, system = Swarm(seed), random.Random(seed)
    trio_run._r.seed(seed)
    with (
        patch.object(trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
        patch.object(random, "SystemRandom", lambda: system),
    ):
        trio.run(swarm.run, clock=MockClock(autojump_threshold=0))
    return swarm


def _draw_config(rng: random.Random) -> SiteConfig:
    protocols = NYC.protocols
    window, backlog = rng.choice((64_000, 1 << 19)), rng.choice((30_000, 1 << 23))
    flow = replace(protocols.flow_control, window_bytes=window, backlog_bytes_max=backlog)
    credit, shares = rng.choice((130_000, 1 << 22)), rng.random() < 0.5
    batching = replace(protocols.batching, message_bytes_max=20_000, send_credit_bytes=credit, keys_share_batches=shares)
    return replace(
        NYC,
        order=rng.choice(("total", "total", "fifo")),
        agreement=rng.choice(("survivors", "uniform")),
        channel=replace(NYC.channel, backlog_policy=rng.choice(("exclude", "gap", "slow")), backlog_hold_s=5.0),
        protocols=replace(protocols, flow_control=flow, batching=batching),
    )


def _name(payload: bytes) -> str:
    return payload.split(b" ")[0].decode()
