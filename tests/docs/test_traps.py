"""Each known trap of the protocols, by its number: a test names it, or it cannot be fallen into here."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

#: Relay, sequencer, unicast, addresses.
TRAPS = {f"{letter}{number}" for letter, last in (("R", 29), ("S", 19), ("U", 13), ("A", 15)) for number in range(1, last + 1)}
#: What would have to be built first.
NOT_HERE = {
    "S19": "no member asks for a number and multicasts itself: the coordinator numbers what it sends",
    "U13": "nothing is authenticated yet (what is not promised: secrecy): whoever reaches the port can reset a window",
    "A6": "there are no short ids: addresses are uuids on the wire too",
    "A7": "there are no short ids, so none is given out twice",
}


def test_every_trap_is_named_by_a_test() -> None:
    named = {trap for path in TESTS.rglob("test_*.py") if path != Path(__file__) for trap in traps_in(path)}
    assert TRAPS - named == NOT_HERE.keys()


def traps_in(path: Path) -> set[str]:
    return TRAPS & set(re.findall(r"\b[RSUA]\d+\b", path.read_text(encoding="utf-8")))
