"""Compiled modules: each pure module is one, or has a reason."""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import hatch_build
from relay.node.config.settings import NodeConfig
from relay_lab.simulation.plan_json import StoredPlan
from tests.structure import policy

PROJECT = Path(__file__).parent.parent


def pure_modules() -> set[str]:
    """All but the shell, faces, which only import, and settings."""
    files = [file for package in policy.PACKAGES for file in (PROJECT / package).rglob("*.py") if file.name != "__init__.py"]
    paths = {file.relative_to(PROJECT).as_posix() for file in files}
    return {path for path in paths if not path.startswith(policy.SHELL) and not path.endswith(hatch_build.SETTINGS)}


def test_each_pure_module_is_compiled_or_says_why_not() -> None:
    compiled = set(hatch_build.compiled_modules(PROJECT))
    excused = {path for path in pure_modules() if path.startswith(tuple(hatch_build.INTERPRETED))}
    assert compiled | excused == pure_modules()
    assert not compiled & excused


def test_each_exception_names_something_that_is_there_and_gives_a_reason() -> None:
    assert [path for path in hatch_build.INTERPRETED if not (PROJECT / path).exists()] == []
    assert all(hatch_build.INTERPRETED.values())


def records(kind: Any, seen: set[type]) -> set[type]:
    """The records that are read from a file, with those in them."""
    for part in get_args(kind):
        records(part, seen)
    if isinstance(kind, type) and is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for hint in get_type_hints(kind).values():
            records(hint, seen)
    return seen


@pytest.mark.parametrize("root", [NodeConfig, StoredPlan])
def test_records_that_are_read_from_files_are_not_compiled(root: type) -> None:
    """They are read by their annotations: of `int | None` and `tuple[int, ...]` mypyc keeps too little."""
    compiled = {path.removesuffix(".py").replace("/", ".") for path in hatch_build.compiled_modules(PROJECT)}
    found = records(root, set())
    assert len(found) > 10
    assert [kind for kind in found if kind.__module__ in compiled] == []


def test_it_is_off_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAY_COMPILED", raising=False)
    hook = hatch_build.CompiledBuildHook(str(PROJECT), {}, None, None, "", "wheel")  # type: ignore[arg-type]
    build_data = {"pure_python": True, "force_include": dict[str, str]()}
    hook.initialize("standard", build_data)
    assert (build_data, hook.dependencies()) == ({"pure_python": True, "force_include": {}}, [])
    monkeypatch.setenv("RELAY_COMPILED", "1")
    hook.initialize("editable", build_data)
    assert build_data == {"pure_python": True, "force_include": {}}
    assert hook.dependencies() == ["mypy[mypyc]>=1.13"]
