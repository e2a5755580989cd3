"""Every key of the file arrives at its user: it is read, checked, and passed to the part that obeys it.

For each key a member is built from a file in which only that key differs from its default, and its
parts are searched for the value. It has arrived when a part has it as an attribute, or in a
configuration that is an attribute.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import trio
import yaml

from relay.cli import main
from relay.cli import node as node_command
from relay.events import BridgeConnected
from relay.layer import RelayLayer
from relay.node import channel as node_channel
from relay.node import daemon
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.config_file import load_config
from relay.node.config.config_keys import Key, find_keys
from relay.node.config.settings import DERIVED, LogSettings, NodeConfig, SecuritySettings
from sitestack.channel.presence import sockets
from sitestack.config import TransportConfig
from sitestack.layers.uniform import Uniform
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.events import ViewInstalled
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local

#: Key or section -> the parts in which it must arrive, all of them. The longest path that fits counts.
ARRIVES: dict[str, tuple[str, ...]] = {
    "site": ("Local",),
    "name": ("Local",),
    "order": ("Sequencer",),
    "transport": ("Sockets",),
    "discovery": ("Discovery",),
    "membership": ("Membership",),
    "membership.leader": ("Leader",),
    "membership.merge": ("Merging",),
    "membership.quarantine": ("Quarantine",),
    # Opening and joining read them where they are, in the channel's own configuration.
    "channel": ("NodeConfig",),
    "protocols.batching": ("Batching",),
    "protocols.state_transfer": ("StateTransfer",),
    "protocols.sequencer": ("Sequencer",),
    "protocols.flow_control": ("FlowControl",),
    # The bounds of its queues are kept where the queues are counted.
    "protocols.flow_control.backlog_bytes_max": ("Level",),
    "protocols.flow_control.queue_bytes_max": ("Level",),
    "protocols.flow_control.queue_frames_max": ("Level",),
    "protocols.stability": ("Stability",),
    "protocols.fragment": ("Fragment",),
    "protocols.unicast": ("Unicast",),
    "protocols.nakack": ("NakAck",),
    "protocols.failure_detection": ("FailureDetection",),
    "protocols.path_mtu": ("PathMtu",),
    "protocols.resolver": ("Resolver",),
    "protocols.short_ids": ("ShortIdsLayer",),
    # The bridge is made of it when the member runs.
    "relay.bridge": ("RelayChannel",),
    "relay.bridge.peers": ("Gateway", "Dialer", "Fence"),
    "relay.bridge.via": ("Routes",),
    "relay.bridge.forward": ("Routes",),
    "relay.bridge.connections_max": ("RelayChannel", "Gateway"),
    "relay.budget": ("Buffer",),
    "relay.budget.spill": ("Spill",),
    # `test_spill_channel.py` looks into the directory.
    "relay.budget.spill.directory": ("SpillSettings",),
    "relay.grace_s": ("Grace",),
    "relay.pace_min_bytes_s": ("LeastPace",),
    "relay.when_down": ("Pace",),
    "relay.offline_after_s": ("_Absences",),
    "relay.dial_s": ("Dialer",),
    "relay.dial_s_max": ("Dialer",),
    "relay.link": ("LinkTable", "LinkSession"),
    "relay.unicast": ("UnicastSender",),
    "relay.state": ("StateRequester",),
    "relay.state.sites": ("SiteState",),
}
#: Keys that no part of a channel holds: each has a test below.
SHOWN_BELOW = ("agreement", "security", "journal", "http", "log")

KEYS = [key for key in find_keys(NodeConfig, DERIVED) if not key.is_section]
FILE = {
    "site": "NYC",
    "transport": {"interface": "127.0.0.1"},
    "discovery": {"initial_hosts": ["127.0.0.1:7601"]},
    "relay": {"bridge": {"peers": {"SFO": ["127.0.0.1:7701"]}}},
}
#: The parts of a member with the plain file; built once.
BY_DEFAULT: list[object] = []
#: Where any other text, or any other number, will not do.
OTHERS: dict[str, Any] = {
    "transport.interface": "127.0.0.2",
    "transport.more_interfaces": ["127.0.0.2"],
    "transport.multicast_group": "239.1.2.3",
    "transport.external_host": "10.9.8.7",
    "discovery.initial_hosts": ["127.0.0.1:7999"],
    "discovery.dns": "127.0.0.1:7999",
    "discovery.routers": ["127.0.0.1:7999"],
    "relay.bridge.bind": "127.0.0.1:7999",
    "relay.bridge.peers": {"LON": ["127.0.0.1:7999"]},
    "relay.bridge.routers": ["127.0.0.1:7999"],
    "relay.bridge.via": {"OSL": "SFO"},
    "relay.bridge.forward": ["SFO"],
    "relay.when_down": {"SFO": "wait"},
    "relay.offline_after_s": {"SFO": 3_600.5},
    "relay.state.sites": ["SFO"],
    "relay.link.rate_max_bytes_s": 12_345_678,
    "relay.budget.bytes": 1_234_567,
    "journal.retained_bytes_max": 1 << 30,
    "journal.retained_s_max": 86_400.5,
    "relay.link.compress": "zstd",
}


def other_values(key: Key) -> list[Any]:
    """Values that are not the default and occur nowhere by chance. Not each fits the other keys."""
    default = key.default
    if key.path in OTHERS:
        return [OTHERS[key.path]]
    if get_origin(key.kind) is Literal:
        return [each for each in get_args(key.kind) if each != default]
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, int):
        return [default + 1_237, default + 37, default - 37]
    if isinstance(default, float):
        return [default * 1.25 + 0.0137]
    return [f"another-{key.path}"]


def with_value(path: str, value: Any) -> dict[str, Any]:
    """The plain file with this key, too."""
    plain: dict[str, Any] = yaml.safe_load(yaml.safe_dump(FILE))
    *sections, name = path.split(".")
    place = plain
    for section in sections:
        place = place.setdefault(section, {})
    place[name] = value
    if path == "transport.ipv6":
        plain["transport"]["interface"], plain["discovery"] = "lo", {}
    if path in ("membership.when_split", "membership.members"):
        plain["membership"] = {"when_split": "majority", "members": 4, name: value}
    if path == "relay.offline_after_s":
        plain["membership"] = {"when_split": "majority", "members": 4}
    if path.startswith("relay.budget.spill."):
        place.setdefault("directory", "spill")
    return plain


def load_with(file: Path, key: Key) -> NodeConfig:
    """The configuration in which this key has another value: the first one that goes together with the rest."""
    refusals = []
    for value in other_values(key):
        file.write_text(yaml.safe_dump(with_value(key.path, value)))
        try:
            return load_config(file)
        except ConfigurationError as error:
            refusals.append(str(error))
    raise AssertionError(refusals)


class Sockets:
    """Stands for the transport: nothing is opened."""

    def __init__(self, config: TransportConfig, group: Physical, proofs: object = None, *, watched: bool = True) -> None:
        self.config = config

    def physical(self) -> tuple[Physical, ...]:
        """Return the addresses that a member registers at its routers."""
        return (Physical("127.0.0.1", 1),)

    def close(self) -> None:
        """There is nothing to close."""


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A channel is built as it always is, and then neither joins nor opens sockets."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def built(channel: RelayChannel, names: object) -> AsyncIterator[RelayChannel]:
        yield channel

    monkeypatch.setattr(node_channel, "member", built)
    for kind in ("UdpTransport", "SeveralUdp", "TcpTransport"):
        monkeypatch.setattr(sockets, kind, Sockets)


async def build(config: NodeConfig) -> list[object]:
    """All parts of a member that relays and has one connection."""
    async with open_channel(config, insecure=True) as channel:
        layers = channel._stack.layers
        [relay_layer] = [layer for layer in layers if isinstance(layer, RelayLayer)]
        first = ViewId(1, channel.address)
        view = View(first, first, (channel.address,), (channel.name,))
        relay_layer.up(ViewInstalled(view, None), 0.0)
        relay_layer.down(BridgeConnected(1), 0.0)
        return list(parts_of(channel))


def parts_of(root: object) -> Iterator[object]:
    """Every object of ours that can be reached through attributes and containers."""
    seen: set[int] = set()
    waiting: deque[object] = deque([root])
    while waiting:
        each = waiting.popleft()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
        elif type(each).__module__.startswith(("sitestack.", "relay.", __name__)):
            yield each
            waiting.extend(attributes(each).values())


def attributes(part: object) -> dict[str, object]:
    """All that an object has, by name."""
    slots = {name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())}
    names = sorted(slots | set(getattr(part, "__dict__", ())))
    return {name: getattr(part, name) for name in names if hasattr(part, name)}


def holders(parts: list[object], key: Key, value: object) -> set[str]:
    """The kinds of parts that have this value: as an attribute, or in a configuration that is one."""
    found = set()
    for part in parts:
        own = attributes(part)
        inside = [attributes(each) for each in own.values() if is_dataclass(each)]
        if any(_is(key, name, each, value) for held in (own, *inside) for name, each in held.items()):
            found.add(type(part).__name__)
    return found


def _is(key: Key, name: str, found: object, value: object) -> bool:
    """Whether this is the value. There are only two booleans, so those go by the name of the key as well."""
    named = type(value) is not bool or name == key.path.rpartition(".")[2]
    return named and type(found) is type(value) and found == value


def value_of(config: NodeConfig, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def expected(path: str) -> tuple[str, ...]:
    """The parts in which a key must arrive. A new key without a row here, or above, has no test and is not let in."""
    rows = [row for row in ARRIVES if path == row or path.startswith(f"{row}.")]
    assert rows, f"say in ARRIVES where {path} arrives"
    return ARRIVES[max(rows, key=len)]


@pytest.mark.conforms("REL-3")
@pytest.mark.parametrize("key", [key for key in KEYS if key.path.split(".")[0] not in SHOWN_BELOW], ids=lambda key: key.path)
async def test_a_configured_value_arrives_where_it_is_used(tmp_path: Path, key: Key) -> None:
    config = load_with(tmp_path / "relay.yaml", key)
    value = value_of(config, key.path)
    assert value != key.default
    missing = set(expected(key.path)) - holders(await build(config), key, value)
    assert missing == set(), f"{key.path} did not arrive in {missing}"
    if not BY_DEFAULT:
        (tmp_path / "defaults.yaml").write_text(yaml.safe_dump(FILE))
        BY_DEFAULT.extend(await build(load_config(tmp_path / "defaults.yaml")))
    assert holders(BY_DEFAULT, key, value) & set(expected(key.path)) == set(), "by chance"


async def test_uniform_agreement_brings_its_layer(tmp_path: Path) -> None:
    file = tmp_path / "relay.yaml"
    for agreement, count in (("survivors", 0), ("uniform", 1)):
        file.write_text(yaml.safe_dump(with_value("agreement", agreement)))
        assert sum(isinstance(part, Uniform) for part in await build(load_config(file))) == count


@pytest.mark.parametrize("key", [key for key in KEYS if key.path.startswith("journal.")], ids=lambda key: key.path)
async def test_a_configured_value_arrives_in_the_journal(tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_with(tmp_path / "relay.yaml", key)
    node = daemon._Node(config, daemon.NodeOptions())
    node._journal(Local("NYC", Address(bytes(16)), "A", random.Random(1)))
    assert node._store is not None
    options, name = node._store._options, key.path.removeprefix("journal.")
    retained = {"retained_bytes_max": options.retention.bytes_max, "retained_s_max": options.retention.age_s_max}
    arrived = retained[name] if name in retained else getattr(options, name)
    assert str(arrived) == str(value_of(config, key.path)) != str(key.default)


async def test_the_configured_place_is_where_http_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, served = tmp_path / "relay.yaml", []

    async def start(config: NodeConfig, bind: Physical, node: object, nursery: trio.Nursery) -> None:
        served.append(bind)
        nursery.cancel_scope.cancel()

    monkeypatch.setattr(daemon, "_start_http", start)
    file.write_text(yaml.safe_dump(with_value("http.bind", "127.0.0.1:7999")))
    config = replace(load_config(file), security=SecuritySettings(insecure=True))
    await daemon.run_node(config, daemon.NodeOptions(status=tmp_path / "a.sock"))
    assert served == [Physical("127.0.0.1", 7999)]


def test_the_node_command_applies_insecure_and_log_settings_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "relay.yaml"
    logs: list[LogSettings] = []
    monkeypatch.setattr(node_command, "configure_log", logs.append)
    monkeypatch.setattr(trio, "run", lambda *arguments: None)
    plain = {**FILE, "security": {"insecure": True}, "log": {"level": "debug", "format": "json"}}
    file.write_text(yaml.safe_dump(plain))
    with pytest.raises(SystemExit) as ended:
        main(["node", str(file)])
    assert (ended.value.code, logs) == (0, [LogSettings("debug", "json")])


def test_every_row_is_about_a_key_that_there_is() -> None:
    paths = [key.path for key in find_keys(NodeConfig, DERIVED)]
    assert set(ARRIVES) | set(SHOWN_BELOW) <= set(paths)
