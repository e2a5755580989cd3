"""Any file is a configuration (or a drill), or every mistake in it is one printable sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.node.config.config_file import fill_in, load_config, print_config
from relay.node.config.settings import NodeConfig
from relay_lab.drills.library import find_drill
from relay_lab.drills.plan import Drill
from sitestack.model.errors import ConfigurationError

QUICKLY = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def paths_in(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where each key of a configuration stands."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        place = (*path, field.name)
        if is_dataclass(hints[field.name]):
            yield from paths_in(hints[field.name], place)
        yield place


#: What YAML takes for something else than text, or chokes on.
ODD = [
    "!!int x",
    "!!float ''",
    "!!bool maybe",
    "!!timestamp never",
    "!!binary =",
    "!!set {a}",
    "!!omap [a: 1]",
    "!!python/name:os.system",
    "2026-13-45",
    "2026-01-01t00:00:00-99:99",
    "0x" + "f" * 5_000,
    "1" * 5_000,
    "1:60:60",
    "1e999",
    ".nan",
    "0b",
    '"\\UFFFFFFFF"',
    '"\\ud800"',
    '"\\0"',
    '"a\\nb"',
    '"\\e[2J"',
    "*a",
    "&a x",
    "? [a]",
    "%YAML 9",
    "---",
    "...",
    "|",
    ">-",
    "[",
    "}",
    "'",
    "\t",
    "\x85",
    "null",
    "~",
    "yes",
    "-1",
    "65536",
    "1.5",
    "text",
    "a:1",
    "[a:1]",
    "{a: [b:1]}",
]
NODE_PATHS = sorted(set(paths_in(NodeConfig)))
DRILL_PATHS = sorted({*paths_in(Drill), ("method", "do"), ("config", "relay", "grace_s")})

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a:1", "NYC", "total", "udp", "10.0.0.1:80", "A.relay", "NYC - SFO"])
)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def soup(paths: list[tuple[str, ...]]) -> st.SearchStrategy[str]:
    """Text that looks like YAML from afar."""
    words = st.sampled_from([*ODD, *{key for path in paths for key in path}])
    line = st.builds(lambda n, key, value: f"{' ' * n}{key}: {value}", st.integers(0, 3), words, words)
    return st.lists(line | words, max_size=6).map("\n".join)


@st.composite
def nested(draw: st.DrawFn, paths: list[tuple[str, ...]]) -> Any:
    """A mapping with known keys in their places, and anything as their values."""
    found: dict[Any, Any] = {}
    for path in draw(st.lists(st.sampled_from(paths), max_size=5)):
        place = found
        for key in path[:-1]:
            inner = place.setdefault(key, {})
            place = inner if isinstance(inner, dict) else {}
        place[path[-1]] = draw(plain)
    return found


def said(read: Callable[[], object]) -> list[str]:
    """Return the sentences of an error, or none."""
    try:
        read()
    except ConfigurationError as error:
        return str(error).splitlines()
    return []


def check_sentences(path: Path, sentences: list[str]) -> None:
    for each in sentences:
        assert each.startswith(f"{path}:"), each
        assert each.isprintable(), each
        assert each.endswith((".", "?")), each


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_are_a_configuration_or_sentences(tmp_path: Path, value: str) -> None:
    path = tmp_path / "relay.yaml"
    for text in (value, f"site: NYC\nname: {value}", f"site: NYC\nrelay: {{grace_s: {value}}}", f"{value}: 1"):
        path.write_text(text, encoding="utf-8")
        check_sentences(path, said(lambda: load_config(path)))
        check_sentences(path, said(lambda: find_drill(str(path))))


@QUICKLY
@given(content=st.text(max_size=60).map(str.encode) | st.binary(max_size=60) | soup(NODE_PATHS).map(str.encode))
def test_any_text_is_a_configuration_or_sentences(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "relay.yaml"
    path.write_bytes(content)
    check_sentences(path, said(lambda: load_config(path)))


@QUICKLY
@given(content=st.text(max_size=60).map(str.encode) | st.binary(max_size=60) | soup(DRILL_PATHS).map(str.encode))
def test_any_text_is_a_drill_or_sentences(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "drill.yaml"
    path.write_bytes(content)
    check_sentences(path, said(lambda: find_drill(str(path))))


@settings(QUICKLY, max_examples=25)
@given(values=nested(NODE_PATHS))
def test_any_values_are_read_and_the_printed_configuration_loads_again(tmp_path: Path, values: Any) -> None:
    config, problems = fill_in(values)
    assert all(each.isprintable() and each.endswith((".", "?")) for each in problems)
    path = tmp_path / "relay.yaml"
    path.write_text(print_config(config), encoding="utf-8")
    try:
        assert load_config(path) == config
    except ConfigurationError as error:  # understood, and it does not go together
        check_sentences(path, str(error).splitlines())


@QUICKLY
@given(peers=st.text(max_size=30), name=st.text(max_size=5), site=st.text(max_size=5))
def test_any_environment_is_a_configuration_or_sentences(tmp_path: Path, peers: str, name: str, site: str) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text("{}", encoding="utf-8")
    environment = {"RELAY_PEERS": peers, "RELAY_NAME": name, "RELAY_SITE": site}
    check_sentences(path, said(lambda: load_config(path, environment=environment)))
