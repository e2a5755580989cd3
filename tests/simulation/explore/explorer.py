"""Breadth-first exploration of all interleavings of a small model of real objects.

A process is a table: from each of its states, its answer to each input. Exploration fills the table by replaying a
process's inputs from its start, since its objects hold closures, which no copy can follow. Two states of a process
are one if its objects have equal contents, with times relative to now. A state of the model is then a small value:
the numbers of its processes' states, and everything under way between them.
"""

from __future__ import annotations

import itertools
import math
import random
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.harness.messages import present

#: The time at which processes start (s): larger floats than half of it are times, all others are not.
START_S = 1e6
#: Seconds by which a process may be late with a timer; seconds in which a run without faults must come to rest.
LATE_S, REST_S = 1.0, 40.0

#: A description of an event, and a function that returns the state after it.
Step = tuple[tuple[Any, ...], Callable[[], Any]]


class Steady(random.Random):
    """Randomness that is none: the order of timers is a choice."""

    def random(self) -> float:
        return 0.5


class Table:
    """A process as a table; a state is a number. The start is 0.

    `make` returns a process. Its `input` handles an input and returns the outputs, `contents` returns the state, and
    `facts` the values for the model; `due_s` among them is the time to the next timer.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._steps: dict[tuple[int, Hashable], tuple[int, tuple[Any, ...]]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._inputs: list[tuple[Hashable, ...]] = []
        self.facts: list[Any] = []
        self._note(make(), ())

    def step(self, state: int, what: Hashable) -> tuple[int, tuple[Any, ...]]:
        """Return the state after an input, and the outputs."""
        known = self._steps.get((state, what))
        if known is None:
            process = self._make()
            for each in self._inputs[state]:
                process.input(each)
            outputs = process.input(what)
            known = self._steps[state, what] = (self._note(process, (*self._inputs[state], what)), outputs)
        return known

    def _note(self, process: Any, inputs: tuple[Hashable, ...]) -> int:
        number = self._numbers.setdefault(process.contents(), len(self._inputs))
        if number == len(self._inputs):
            self._inputs.append(inputs)
            self.facts.append(process.facts())
        return number


@dataclass(frozen=True, slots=True)
class State:
    #: The state of each process; None: dead.
    members: tuple[int | None, ...]
    #: Kills, timers and other faults left; in a run without faults, seconds until it must have come to rest.
    left: tuple[int, ...] | float = REST_S


class Model:
    """A small world, and everything that may happen in it next. Broken promises are AssertionErrors."""

    def __init__(self, make: Callable[[str], Any], names: tuple[str, ...], *left: int) -> None:
        self.names = names
        self.left = left
        self.tables = {name: Table(partial(make, name)) for name in names}

    def start(self) -> Any: ...
    def deliveries(self, state: Any) -> Iterable[Step]:
        raise NotImplementedError

    def faults(self, state: Any) -> Iterable[Step]:
        raise NotImplementedError

    def check(self, state: Any) -> None: ...
    def calm(self, state: Any) -> Any: ...
    def missing(self, state: Any) -> str | None: ...
    def step(self, state: Any, name: str, what: Any) -> Any: ...

    def duties(self, state: Any) -> Iterable[Step]:
        """Events other than deliveries that happen in every run, at any time."""
        return ()

    def next(self, state: Any) -> Iterator[Step]:
        yield from itertools.chain(self.deliveries(state), self.duties(state), self.faults(state))
        for name in self.due(state, LATE_S) if state.left[1] else ():
            yield ("timer", name), partial(self.step, self.spend(state, 1), name, "timer")

    def fair(self, state: Any) -> Step | None:
        """The next step of a run without faults; None at rest."""
        step = next(iter(self.deliveries(state)), None) or next(iter(self.duties(state)), None)
        if step is not None or self.missing(state) is None or state.left <= 0.0 or not self.due(state, 0.0):
            return step
        return ("time",), partial(self.pass_time, state)

    def pass_time(self, state: Any) -> Any:
        return self.step(state, self.due(state, 0.0)[0], "timer")

    def facts(self, state: Any) -> dict[str, Any]:
        """The facts of the living processes."""
        pairs = zip(self.names, state.members, strict=True)
        return {name: self.tables[name].facts[number] for name, number in pairs if number is not None}

    def due(self, state: Any, late_s: float) -> list[str]:
        """The processes whose timer may expire next."""
        dues = {name: facts.due_s for name, facts in self.facts(state).items()}
        return [name for name, due in dues.items() if due <= min(dues.values()) + late_s]

    @staticmethod
    def spend(state: Any, fault: int) -> Any:
        return replace(state, left=tuple([left - (at == fault) for at, left in enumerate(state.left)]))

    def enter(self, state: Any, name: str, what: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return the state after an input of one process, and its outputs. Before a timer, time passes for all others."""
        if what == "timer":
            state = self.wait(state, self.facts(state)[name].due_s, name)
        members = dict(zip(self.names, state.members, strict=True))
        number = present(members[name])
        members[name], outputs = self.tables[name].step(number, what)
        return replace(state, members=tuple(members.values())), outputs

    def wait(self, state: Any, seconds: float, but: str = "") -> Any:
        seconds = round(seconds, 6)
        for name in [each for each in self.facts(state) if each != but and seconds]:
            state, _ = self.enter(state, name, seconds)
        return replace(state, left=round(state.left - seconds, 6)) if isinstance(state.left, float) else state


@dataclass(frozen=True)
class Report:
    states: int
    steps: int
    #: Steps on the longest of the shortest paths to a state.
    depth: int
    #: Whether all states were met.
    complete: bool
    #: The broken promise, and the steps that break it.
    violation: str = ""
    path: tuple[Any, ...] = ()


class _Broken(Exception):
    """A promise is broken, in this state and the following steps."""


def explore(model: Model, states_max: int = 1_000_000) -> Report:
    """Explore until all states are met, `states_max` are, or a promise is broken."""
    steps = depth = 0
    state = model.start()
    met: dict[Any, tuple[Any, Any] | None] = {state: None}
    settled: set[Any] = set()
    frontier = deque([(state, 0)])
    try:
        while frontier and len(met) < states_max:
            state, depth = frontier.popleft()
            _run_fairly(model, state, settled)
            for choice, follow in model.next(state):
                steps += 1
                after = _do(model, follow, state, choice)
                if after not in met:
                    met[after] = (state, choice)
                    frontier.append((after, depth + 1))
    except _Broken as error:
        state, *path = error.args
        while (before := met[state]) is not None:
            state, choice = before
            path.insert(0, choice)
        return Report(len(met), steps, depth, False, str(error.__cause__), tuple(path))
    return Report(len(met), steps, depth, not frontier)


def _do(model: Model, follow: Callable[[], Any], start: Any, *path: Any) -> Any:
    try:
        after = follow()
        model.check(after)
    except Exception as error:  # also an assertion of the product
        raise _Broken(start, *path) from error
    return after


def _run_fairly(model: Model, start: Any, settled: set[Any]) -> None:
    """From every state, a run without further faults must bring everything to its end. `settled` have done so."""
    state, path, passed = model.calm(start), ["without faults from here on"], set[Any]()
    while state not in settled and state not in passed:
        passed.add(state)
        step = model.fair(state)
        if step is None:
            break
        path.append(step[0])  # type: ignore[arg-type]
        state = _do(model, step[1], start, *path)
    if state not in settled and (missing := model.missing(state)) is not None:
        raise _Broken(start, *path) from AssertionError(missing)
    settled |= passed


_SEQUENCES = (list, deque, tuple)
_WITHOUT_STATE = (random.Random, types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)


class Contents:
    """The contents of objects as nested tuples."""

    def __init__(self, ignored: str, clamped: str, *values: type) -> None:
        """`ignored`: attributes that decide nothing. `clamped`: times that decide nothing once they have passed.

        `values`: classes of immutable, hashable objects.
        """
        self._ignored = frozenset(ignored.split())
        self._clamped = frozenset(clamped.split())
        self._values = frozenset(values)
        self._now = 0.0
        self._met: dict[int, int] = {}

    def all(self, values: Iterable[Any], now: float) -> Hashable:
        """The contents of these objects at this time (seconds)."""
        self._now = now
        self._met.clear()
        return tuple(map(self.of, values))

    def of(self, value: Any, past_counts: bool = True) -> Any:
        kind = type(value)
        if value is None or isinstance(value, int | str | bytes) or kind in self._values:
            return value
        if kind is float:
            relative = round(value - self._now, 6) if START_S / 2 < value < math.inf else value
            return relative if past_counts else max(0.0, relative)
        if kind is dict:
            return tuple([(self.of(key), self.of(each, past_counts)) for key, each in value.items()])
        if isinstance(value, _SEQUENCES):
            return tuple(map(self.of, value))
        if kind in (set, frozenset):
            return frozenset(map(self.of, value))
        if kind in (bytearray, itertools.count):
            return repr(value)
        return None if isinstance(value, _WITHOUT_STATE) else self._object(value)

    def _object(self, value: Any) -> Hashable:
        if id(value) in self._met:
            return ("again", self._met[id(value)])
        self._met[id(value)] = len(self._met)
        names = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
        names += getattr(value, "__dict__", {})
        assert names or hasattr(value, "__dict__"), f"unknown contents: {value!r}"
        wanted = [name for name in names if name not in self._ignored]
        attributes = [(name, self.of(getattr(value, name, None), name not in self._clamped)) for name in wanted]
        return (type(value).__name__, *attributes)
