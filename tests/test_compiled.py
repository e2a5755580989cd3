"""What is compiled: each pure module is, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

import hatch_build
from tests.structure import policy

PROJECT = Path(__file__).parent.parent


def pure_modules() -> set[str]:
    """All but the shell, and but faces, which only import."""
    files = [file for package in policy.PACKAGES for file in (PROJECT / package).rglob("*.py") if file.name != "__init__.py"]
    paths = {file.relative_to(PROJECT).as_posix() for file in files}
    return {path for path in paths if not path.startswith(policy.SHELL)}


def test_each_pure_module_is_compiled_or_says_why_not() -> None:
    compiled = set(hatch_build.compiled_modules(PROJECT))
    excused = {path for path in pure_modules() if path.startswith(tuple(hatch_build.INTERPRETED))}
    assert compiled | excused == pure_modules()
    assert not compiled & excused


def test_each_exception_names_something_that_is_there_and_gives_a_reason() -> None:
    assert [path for path in hatch_build.INTERPRETED if not (PROJECT / path).exists()] == []
    assert all(hatch_build.INTERPRETED.values())


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
