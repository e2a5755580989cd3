"""Every reason for which something is dropped, read off the source: the arguments of `Dropped` and of `ProtocolError`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Folders whose ProtocolErrors are no drops: a damaged file, which `relay check` reports, and a message of a
#: structure, which is logged.
NOT_DROPS = ("relay/journal/", "relay/structures/", "sitestack/structures/")

#: Where the call computes its reason: "path: expression" -> "path: functions, class or table; ..." that have the words.
COMPUTED = {
    "relay/layer/layer.py: outcome.admission.value": "relay/replica/remote_site.py: Admission",
    "relay/gateway/peering.py: answer.value": "relay/replica/remote_site.py: Admission",
    "relay/gateway/peering.py: error.reason": "",  # the reason of a ProtocolError, which is collected where it is raised
    "relay/gateway/peering.py: f'hello_{reason}'": "relay/gateway/fence.py: HelloRefusal",
    "relay/gateway/peering.py: f'link_{reason}'": "relay/gateway/session.py: Overdue",
    "relay/gateway/carrier.py: reason": "relay/gateway/routes.py: write arrived",
    "relay/gateway/routes.py: reason": "relay/gateway/routes.py: arrived _hand_on",
    "relay/unicast/forwarding.py: f'relay_reply_{refusal}'": (
        "relay/gateway/link_table.py: send_unicast; relay/gateway/session.py: send_unicast"
    ),
    "relay/unicast/forwarding.py: f'relay_unicast_{refusal}'": "relay/gateway/session.py: send_unicast",
    "sitestack/layers/batching/layer.py: reason": "sitestack/layers/batching/layer.py: _maybe_leave",
    "sitestack/layers/membership/leader.py: stale": "sitestack/layers/membership/leader.py: _ANSWERS",
    "sitestack/layers/nakack/layer.py: refused": "sitestack/layers/nakack/window.py: add",
    "sitestack/layers/sequencer/layer.py: Receipt.HOLE.value": "sitestack/layers/sequencer/received_table.py: Receipt",
    "sitestack/layers/sequencer/layer.py: verdict.value": "sitestack/layers/sequencer/received_table.py: Receipt",
    "sitestack/layers/unicast/receiver.py: refused": "sitestack/layers/unicast/receiver.py: _enter",
}

#: Words in the places of `COMPUTED` that are no reason, because they mean that nothing is dropped.
NO_REASON = frozenset({"admitted"})

WORD = re.compile(r"[a-z]+(_[a-z]+)*")


def collect() -> set[str]:
    """All reasons. Raises KeyError for a call whose reason is neither written down nor in `COMPUTED`."""
    return {word for path, argument in arguments() for word in words(path, argument)} - NO_REASON


def computed() -> set[str]:
    """The calls whose reasons are not written down, as the keys of `COMPUTED` are."""
    return {f"{path}: {ast.unparse(argument)}" for path, argument in arguments() if not constants(argument)}


@cache
def arguments() -> tuple[tuple[str, ast.expr], ...]:
    return tuple([(path, argument) for path in sources() for argument in arguments_in(tree_of(path))])


def sources() -> Iterator[str]:
    for root in ("sitestack", "relay"):
        for file in sorted((ROOT / root).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            if not path.startswith(NOT_DROPS):
                yield path


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def arguments_in(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Dropped", "ProtocolError"):
            yield node.args[0]


def words(path: str, argument: ast.expr) -> list[str]:
    """All reasons that the argument of one call can be."""
    if plain := constants(argument):
        return plain
    place = COMPUTED[f"{path}: {ast.unparse(argument)}"]
    return [prefix(argument) + word for part in place.split("; ") for word in words_at(part)]


def constants(argument: ast.expr) -> list[str]:
    """A string, or either of two."""
    if isinstance(argument, ast.IfExp):
        return constants(argument.body) + constants(argument.orelse)
    return [str(argument.value)] if isinstance(argument, ast.Constant) else []


def prefix(argument: ast.expr) -> str:
    """Return the constant beginning of an f-string."""
    first = argument.values[0] if isinstance(argument, ast.JoinedStr) else None
    return str(first.value) if isinstance(first, ast.Constant) else ""


def words_at(place: str) -> list[str]:
    """The strings there that are words, and the members of enums: sentences for people are none."""
    path, _, names = place.partition(": ")
    if not path:
        return []
    homes = [node for node in ast.walk(tree_of(path)) if _name_of(node) in names.split()]
    strings = [string for home in homes for node in ast.walk(home) if (string := text_of(node)) is not None]
    return [each for each in strings if WORD.fullmatch(each)]


def _name_of(node: ast.AST) -> str | None:
    """The name of a function, a class or an annotated table of a module."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def text_of(node: ast.AST) -> str | None:
    """A string, or the one that the member of an enum stands for."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return enum_members().get(ast.unparse(node)) if named else None


@cache
def enum_members() -> dict[str, str]:
    """`Class.MEMBER` -> its string, for all enums of words."""
    classes = [node for path in sources() for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    enums = [each for each in classes if "StrEnum" in map(ast.unparse, each.bases)]
    lines = [(each.name, line) for each in enums for line in each.body if isinstance(line, ast.Assign)]
    return {f"{name}.{ast.unparse(line.targets[0])}": ast.literal_eval(line.value) for name, line in lines}
