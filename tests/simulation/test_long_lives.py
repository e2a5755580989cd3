"""A long life: a member keeps a few numbers for departed members and stable messages, and nothing else."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from types import MethodType

import pytest

from sitestack.config import Order
from tests.harness.linked_sites import two_sites

#: Seconds: enough to exclude, to take in, to relay, and to have nothing on its way any more.
ROUND_S = 15.0
#: Seconds after which everything that waits for dead members has been given up.
REST_S = 200.0
#: Rounds before the first look and between the two.
SETTLE, ROUNDS = 6, 20
#: Containers with an entry for each dead member, here or at the other site: its numbers, so that no message of it
#: is accepted twice. Each has a bound, or drops entries only when full.
PER_DEATH = {
    "BufferSource._tokens",  # joiners that were handed the state: JOINERS_MAX
    "Lineage.acked",  # ORIGINS_MAX
    "LinkReceiver._reached[]",
    "LinkSender._acked",
    "LinkSender._sent",
    "RateLimit._allowed",
    "ReceivedTable._left",  # numbers that the sequencer has received of the dead
    "SwitchedState.produced",  # the state as it was given last
    "Remote.admitted",  # ORIGINS_MAX
    "RemoteState.admitted",
    "ReplicatedState.produced",  # ORIGINS_MAX
    "SequencerState.numbers",
    "SiteVector.origins",
    "Targets._lines[]",  # whom this member has sent unicasts: TARGETS_MAX
}
#: Entries that were dropped are cut off when they are a thousand.
IN_CHUNKS = {"Buffer._entries"}
#: Bytes of a message that is large.
LARGE = 3_000
#: The packages whose objects are looked into.
PURE = (
    "relay.gateway",
    "relay.layer",
    "relay.replica",
    "relay.site_state",
    "sitestack.journal",
    "sitestack.layers",
    "sitestack.model",
    "sitestack.stack",
)
_PLAIN = (str, bytes, int, float, type(None), type)


def held(root: object) -> Counter[str]:
    """How many elements each table, list and set has that can be reached from an object, by the attribute that has it."""
    found = Counter[str]()
    for thing, path in _reach(root):
        if isinstance(thing, (dict, list, set, deque)):
            found[path] += len(thing)
    return found


def bodies(*roots: object) -> dict[str, int]:
    """How many large byte strings can be reached from these objects, by the attribute that has them."""
    return Counter(path for root in roots for thing, path in _reach(root) if isinstance(thing, bytes) and len(thing) >= LARGE)


def _reach(root: object) -> Iterator[tuple[object, str]]:
    seen = set[int]()
    waiting = deque([(root, "")])
    while waiting:
        thing, path = waiting.popleft()
        if id(thing) not in seen:
            seen.add(id(thing))
            yield thing, path
            waiting += () if isinstance(thing, _PLAIN) else _parts(thing, path)


def _parts(thing: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(thing, dict):
        yield from ((each, f"{path}[]") for pair in thing.items() for each in pair)
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        yield from ((each, f"{path}[]") for each in thing)
    elif isinstance(thing, MethodType):
        yield thing.__self__, path
    elif type(thing).__module__.startswith(PURE):
        slots = [name for kind in type(thing).__mro__ for name in _names(getattr(kind, "__slots__", ()))]
        for name in {*slots, *getattr(thing, "__dict__", ())}:
            yield getattr(thing, name, None), f"{type(thing).__name__}.{name}"


def _names(slots: str | tuple[str, ...]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else slots


@pytest.mark.long
@pytest.mark.parametrize("order", ["total", "fifo"])
def test_a_member_keeps_only_numbers_of_departed_members(order: Order) -> None:
    script = two_sites(order=order)
    living = {name: name for name in "BCEF"}

    def live(rounds: range) -> None:
        for number in rounds:
            for seat, name in list(living.items()):
                script.kill(name)
                living[seat] = f"{seat}{number}"
                script.start(script.home[seat], living[seat], script.hosts[seat])
                script.run(ROUND_S / 5)
                for sender in ("A", "D", living["B"], living["E"]):
                    script.send(sender, f"{sender} {number}")
                script.send("A", f"to {living['C']}", to=script[living["C"]].local.address)
                script.run(ROUND_S)
            script.transcript.lines.clear()
        script.run(REST_S)

    live(range(SETTLE))
    before = {name: held(script[name].stack) for name in "AD"}
    live(range(SETTLE, SETTLE + ROUNDS))
    deaths = len(living) * ROUNDS
    for name, then in before.items():
        grown = {path: count - then[path] for path, count in held(script[name].stack).items() if path not in IN_CHUNKS}
        assert grown["ReceivedTable._left" if order == "total" else "Remote.admitted"] > 0, "the dead have sent nothing"
        assert {path: by for path, by in grown.items() if by > deaths} == {}
        assert {path for path, by in grown.items() if by >= ROUNDS / 2} <= PER_DEATH


@pytest.mark.slow
@pytest.mark.parametrize("order", ["total", "fifo"])
def test_bodies_that_all_members_have_are_freed(order: Order) -> None:
    script = two_sites(order=order)
    for number in range(20):
        for name in "ABCDEF":
            script.send(name, f"{name} {number} ".ljust(LARGE, "."))
        script.send("A", f"to E {number} ".ljust(LARGE, "."), to=script.proxy("E"))
        script.run(1.0)
    script.run(REST_S)
    assert all(len(script.delivered(name)) == 120 + (name == "E") * 20 for name in "ABCDEF")
    assert [(name, kept) for name in "ABCDEF" if (kept := bodies(script[name].stack, script[name].recorder))] == []
