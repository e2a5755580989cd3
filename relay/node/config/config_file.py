"""Load and check the configuration file.

All unreadable values, or else all conflicts, are reported at once. Nothing in the file is executed.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from relay.node.bridge.bridge import BridgeConfig
from relay.node.config.config_keys import Key, find_keys
from relay.node.config.config_values import Reader, to_plain, with_value
from relay.node.config.settings import DERIVED, NodeConfig, find_problems
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

#: Limits of the file: bytes, characters of one scalar, and nesting.
FILE_BYTES_MAX, SCALAR_CHARS_MAX, DEPTH_MAX = 1 << 18, 4_096, 32
#: Removed key -> advice.
REMOVED = {
    "relay.masters": "one member relays for its site; to spread load, run several groups on a shared transport, each relayed "
    "by its own coordinator (docs/reference/library.md)",
    **dict.fromkeys(
        (
            "discovery.answer_interval_s",
            "membership.blocked_timeout_s",
            "protocols.failure_detection.not_here_interval_s",
            "protocols.failure_detection.seen_interval_s",
            "protocols.failure_detection.limited_max",
            "protocols.path_mtu.attempt_interval_s",
        ),
        "its default is now fixed, so remove the line",
    ),
}
PROBLEMS_MAX = 50
#: YAML tags that a file may use: no dates, sets or objects.
_TYPES = frozenset({"null", "bool", "int", "float", "str", "seq", "map"})
COMMENT_CHARS_MAX = 110
#: Bits of the largest integer. A larger one is a mistake, and might not convert to float.
INT_BITS_MAX = 64


def load_config(
    path: str | PathLike[str], *, site: str = "", name: str = "", environment: Mapping[str, str] | None = None
) -> NodeConfig:
    """Return the checked configuration.

    Arguments win over environment variables, and those over the file.
    `RELAY_PEERS="SFO=bridge.sfo:7700 LON=10.0.3.1:7700"` replaces the peers,
    `RELAY_ROUTERS="router-a:7900 router-b:7900"` the routers, `RELAY_KEYS` replaces
    `security.keys`, and `RELAY_SPILL` the directory of `relay.budget.spill`.

    Raises ConfigurationError with one line for each problem.
    """
    environment = environment or {}
    config, problems = fill_in(load(path))
    reader = Reader({})
    given = {
        "site": site or environment.get("RELAY_SITE"),
        "name": name or environment.get("RELAY_NAME"),
        "security.keys": environment.get("RELAY_KEYS"),
        "relay.budget.spill.directory": environment.get("RELAY_SPILL"),
        "relay.bridge.peers": _read_peers(reader, environment.get("RELAY_PEERS", "")),
        "discovery.routers": _read_routers(reader, environment.get("RELAY_ROUTERS", "")),
    }
    for key, value in given.items():
        if value:
            config = with_value(config, key, value)
    problems += reader.problems
    # Beside defaults of unread keys, sound values look wrong.
    if problems := problems or find_problems(config):
        more = len(problems) - PROBLEMS_MAX
        told = problems[:PROBLEMS_MAX] if more <= 0 else [*problems[:PROBLEMS_MAX], f"and {more} more problems."]
        raise ConfigurationError("\n".join(f"{path}: {problem}" for problem in told))
    return config


def load(path: str | PathLike[str]) -> Any:
    """Return the plain values of a file.

    Raises ConfigurationError if it is unreadable or no YAML.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}).") from error
    if len(text) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path}: is larger than {FILE_BYTES_MAX} bytes.")
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except (yaml.YAMLError, OverflowError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else f"{path}"
        what = getattr(error, "problem", None) or "it cannot be parsed"
        raise ConfigurationError(f"{where}: is not valid YAML ({what}).") from error


def fill_in(plain: Any) -> tuple[NodeConfig, list[str]]:
    """Return the configuration with all defaults, and the problems of `plain`."""
    reader = Reader(DERIVED, REMOVED)
    return reader.record(NodeConfig, plain), reader.problems


def print_config(config: NodeConfig | None = None) -> str:
    """Return a configuration as YAML, with defaults and comments.

    Loading it yields the same values.
    """
    keys = {key.path: key for key in find_keys(NodeConfig, DERIVED)}
    return "\n".join([*_print(to_plain(config or NodeConfig(), DERIVED), keys), ""])


def _print(plain: dict[str, Any], keys: Mapping[str, Key], path: str = "", indent: str = "") -> Iterator[str]:
    for name, value in plain.items():
        key = keys[f"{path}{name}"]
        if key.is_section and not path:
            yield ""
        yield from textwrap.wrap(key.what, COMMENT_CHARS_MAX, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        if key.is_section:
            yield f"{indent}{name}:"
            yield from _print(value, keys, f"{key.path}.", f"{indent}  ")
        else:
            text: str = yaml.safe_dump({name: value}, sort_keys=False, width=math.inf)
            yield textwrap.indent(text.removesuffix("\n"), indent)


def _read_peers(reader: Reader, text: str) -> dict[str, tuple[Physical, ...]]:
    table: dict[str, list[str]] = {}
    for word in text.split():
        site, equals, place = word.partition("=")
        if not site or not equals:
            reader.problems.append(f"RELAY_PEERS: must be SITE=host:port, any number of times, not {word!r}.")
        else:
            table.setdefault(site, []).append(place)
    return reader.record(BridgeConfig, {"peers": table}, "RELAY_PEERS").peers


def _read_routers(reader: Reader, text: str) -> tuple[Physical, ...]:
    return reader.record(DiscoveryConfig, {"routers": text.split()}, "RELAY_ROUTERS").routers


class _Loader(yaml.SafeLoader):
    """Loader that rejects duplicate keys, aliases, and scalars that do not fit their tag.

    An alias can expand a small file without bound.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", mark)
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > SCALAR_CHARS_MAX:
            raise yaml.composer.ComposerError(None, None, "the text is too long", mark)
        if self._depth >= DEPTH_MAX:
            raise yaml.composer.ComposerError(None, None, "it is nested too deeply", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Reject unsupported types, and turn any exception of a constructor into a YAML error."""
        kind = node.tag.rpartition(":")[2]
        if kind not in _TYPES:
            raise yaml.constructor.ConstructorError(None, None, f"the type {kind!r} is not supported", node.start_mark)
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
            raise yaml.constructor.ConstructorError(None, None, f"the value is not a valid {kind}", node.start_mark) from error
        if type(value) is int and value.bit_length() > INT_BITS_MAX:
            raise yaml.constructor.ConstructorError(None, None, "the number is too large", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} appears twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


#: A date, or the merge key <<, stays text.
_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0].rpartition(":")[2] not in ("timestamp", "merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
