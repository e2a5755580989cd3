"""What `import sitestack` and `import relay` show: all that a user needs, found by completion and `help`, and fully typed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from rlcompleter import Completer
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest
from mypy import api as mypy

import relay
import sitestack
from relay.node.channel import RelayChannel
from relay.node.events import BetweenSites

PROJECT = Path(__file__).parent.parent
FACES = pytest.mark.parametrize("face", [sitestack, relay], ids=["sitestack", "relay"])


def imported_for_types(face: ModuleType) -> dict[str, str]:
    """Return the names that a type checker sees, and the modules that they are from."""
    assert face.__file__ is not None
    tree = ast.parse(Path(face.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names
    }


@FACES
def test_type_checkers_completion_and_programs_see_the_same_names(face: ModuleType) -> None:
    assert imported_for_types(face) == face._HOMES
    assert sorted(face._HOMES) == sorted(face.__all__)
    assert [name for name in dir(face) if not name.startswith("__")] == sorted(face.__all__)
    for name in face.__all__:
        assert getattr(face, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = face.nonsense


@FACES
def test_a_partly_typed_name_is_completed(face: ModuleType) -> None:
    found = Completer({"face": face}).attr_matches("face.Mes")
    assert [each.rstrip("(") for each in found] == ["face.Message", "face.MessageId", "face.MessageTooLarge"]


@FACES
def test_help_begins_with_all_names_in_groups(face: ModuleType) -> None:
    assert face.__doc__ is not None
    names = set(re.findall(r"`([A-Za-z_]+)`", face.__doc__))
    assert set(face.__all__) - names == set()
    assert {name for name in names if name[0].isupper()} <= set(face.__all__)


@FACES
def test_a_face_alone_loads_no_event_loop(face: ModuleType) -> None:
    program = f"import sys, {face.__name__}; print('trio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert ran.stdout == "False\n"


def kinds_of_settings(kind: type) -> Iterator[type]:
    """The dataclass of a configuration, and those inside it."""
    yield kind
    for inner in get_type_hints(kind).values():
        if isinstance(inner, type) and is_dataclass(inner):
            yield from kinds_of_settings(inner)


@pytest.mark.parametrize(("face", "settings"), [(sitestack, sitestack.SiteConfig), (relay, relay.NodeConfig)])
def test_every_kind_of_settings_is_shown(face: ModuleType, settings: type) -> None:
    missing = {kind.__name__ for kind in kinds_of_settings(settings)} - set(face.__all__)
    assert missing == set()


def test_relay_exports_the_objects_of_sitestack_with_listed_exceptions() -> None:
    """One import is enough: equal names are equal objects, except those that know other sites."""
    both = set(relay.__all__) & set(sitestack.__all__)
    assert {name for name in both if getattr(relay, name) is not getattr(sitestack, name)} == {
        "BatchEvent",
        "Event",
        "open_channel",
    }
    alone = {"Channel", "ChannelStatistics", "KeyRing", "SiteConfig", "lan", "local", "named_hosts"}
    assert set(sitestack.__all__) - both == alone


def test_event_unions_contain_exactly_the_expected_types() -> None:
    assert get_args(sitestack.Event) == (sitestack.Message, sitestack.View, sitestack.Gap)
    assert get_args(sitestack.BatchEvent) == (sitestack.Delivery, sitestack.View, sitestack.Gap)
    assert get_args(relay.Event) == (
        relay.Message,
        relay.View,
        relay.Gap,
        relay.GlobalView,
        relay.Role,
        relay.SiteSwitched,
        relay.Unreachable,
    )
    assert get_args(relay.BatchEvent) == (relay.Delivery, *get_args(relay.Event)[1:])
    assert set(get_args(BetweenSites)) == set(get_args(relay.Event)) - set(get_args(sitestack.Event))
    [base] = vars(RelayChannel)["__orig_bases__"]
    assert get_args(base) == (BetweenSites,)


MATCH = """
from typing import assert_never
import {face}

async def receive(channel: {face}.{channel}) -> None:
    async for event in channel{batches}:
        match event:
            case {cases}:
                pass
            case _:
                assert_never(event)
"""


def complaints(tmp_path: Path, *programs: str) -> dict[str, str]:
    """Return mypy's messages for each program, by its number, with the project's own strict settings."""
    for number, program in enumerate(programs):
        (tmp_path / f"program{number}.py").write_text(program, encoding="utf-8")
    out, err, _ = mypy.run(["--config-file", str(PROJECT / "pyproject.toml"), *map(str, sorted(tmp_path.glob("*.py")))])
    assert err == ""
    return dict(re.findall(r"program(\d)\.py:\d+: error: (.*)", out))


@pytest.mark.slow
def test_a_match_over_all_events_is_exhaustive_and_an_incomplete_one_is_refused(tmp_path: Path) -> None:
    def program(face: str, channel: str, batches: str, *cases: str) -> str:
        cases_of = " | ".join(f"{face}.{case}()" for case in cases)
        return MATCH.format(face=face, channel=channel, batches=batches, cases=cases_of)

    more = ("Gap", "GlobalView", "Role", "SiteSwitched", "Unreachable")
    said: dict[str, Any] = complaints(
        tmp_path,
        program("sitestack", "Channel", "", "Message", "View", "Gap"),
        program("sitestack", "Channel", ".batches()", "Delivery", "View", "Gap"),
        program("relay", "RelayChannel", "", "Message", "View", *more),
        program("relay", "RelayChannel", ".batches()", "Delivery", "View", *more),
        program("sitestack", "Channel", "", "Message", "Gap"),
        program("relay", "RelayChannel", "", "Message", "View", *more[1:]),
        program("relay", "RelayChannel", ".batches()", "Message", "View", *more),
    )
    assert sorted(said) == ["4", "5", "6"]
    assert 'incompatible type "View"; expected "Never"' in said["4"]
    assert 'incompatible type "Gap"; expected "Never"' in said["5"]
    assert 'incompatible type "Delivery"; expected "Never"' in said["6"]
