"""A changed configuration is read on SIGHUP: changeable values apply, and each other one is refused in a sentence."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.node.bridge.bridge import BridgeConfig
from relay.node.config.config_keys import find_keys
from relay.node.config.config_values import with_value
from relay.node.config.reload import BYTES, MAY_CHANGE, PEERS, WHY_NOT, applied, compare
from relay.node.config.settings import DERIVED, NodeConfig, RelaySettings, SecuritySettings, find_problems
from relay.node.status.status_socket import fetch_status
from sitestack.model.address import Physical
from tests.relay.node.test_daemon import LIMIT_S, configure, node

KEYS = [key.path for key in find_keys(NodeConfig, DERIVED) if not key.is_section]


@pytest.mark.parametrize("path", KEYS)
def test_every_key_is_taken_or_refused_in_a_sentence(path: str) -> None:
    running, value = NodeConfig(site="NYC"), 2_000_000 if path == BYTES else "another"
    found = compare(running, with_value(running, path, value))
    if path in MAY_CHANGE:
        assert (found.changed, found.refused) == ({path: value}, ())
    else:
        [sentence] = found.refused
        assert not found.changed
        assert sentence.startswith(f"{path}: cannot change while the member runs; ")
        assert sentence.endswith(".")


def linked(peers: tuple[str, ...], via: dict[str, str] | None = None) -> NodeConfig:
    places: dict[str, tuple[Physical, ...]] = {site: (Physical(f"relay.{site.lower()}", 7700),) for site in peers}
    return NodeConfig(site="NYC", relay=RelaySettings(bridge=BridgeConfig(peers=places, via=via or {})))


def test_changed_peers_apply_and_are_no_difference_in_the_next_comparison() -> None:
    running, wanted = linked(("SFO",)), replace(linked(("SFO", "LON")), order="fifo")
    found = compare(running, wanted)
    assert list(found.changed) == [PEERS]
    assert [sentence.split(":")[0] for sentence in found.refused] == ["order"]
    after = applied(running, found.changed)
    assert after == linked(("SFO", "LON"))
    assert compare(after, wanted).changed == {}


def test_peers_that_a_route_goes_by_are_taken_with_a_restart_only() -> None:
    found = compare(linked(("SFO",), {"LON": "SFO"}), linked(("LON", "SFO")))
    assert found.changed == {}
    why = dict(sentence.split(": ", 1) for sentence in found.refused)
    assert "relay.bridge.via has changed too" in why[PEERS]
    assert why["relay.bridge.via"].endswith("restart the members one by one.")


def test_peers_called_through_a_new_router_are_taken_with_a_restart_only() -> None:
    router = Physical("router", 7900)
    wanted = with_value(with_value(linked(("SFO",)), PEERS, {"SFO": (router,)}), "relay.bridge.routers", (router,))
    found = compare(linked(("SFO",)), wanted)
    assert found.changed == {}, "the relay would call the router as if it were the relay of SFO"
    assert "relay.bridge.routers has changed too" in " ".join(found.refused)


@pytest.mark.parametrize("key", ["site", "relay.bridge.bind"])
def test_peers_of_the_file_of_another_site_or_for_another_port_are_taken_with_a_restart_only(key: str) -> None:
    wanted = with_value(linked(("LON",)), key, "SFO" if key == "site" else Physical("relay.sfo", 7700))
    found = compare(linked(("SFO",)), wanted)
    assert found.changed == {}, "the relay would lose its links, or call itself"
    assert f"{key} has changed too" in " ".join(found.refused)


def test_a_member_started_without_links_refuses_new_peers() -> None:
    alone = replace(linked(()), security=SecuritySettings(keys="keys/NYC"))
    wanted = applied(alone, {PEERS: linked(("SFO",)).relay.bridge.peers})
    [sentence] = compare(alone, wanted, can_prove=False).refused
    assert sentence == (
        f"{PEERS}: cannot change while the member runs; this member was started without links, and so without certificates: "
        "restart it."
    )


def test_peers_return_to_a_member_that_was_started_with_links_and_has_lost_all() -> None:
    before = replace(linked(("SFO",)), security=SecuritySettings(keys="keys/NYC"))
    without = applied(before, {PEERS: {}})
    assert compare(without, before).changed == {PEERS: before.relay.bridge.peers}


def test_a_budget_that_needs_another_key_to_change_too_is_taken_with_a_restart_only() -> None:
    plain = linked(("SFO",))
    running, small = with_value(plain, "relay.link.window_bytes", 5_000_000), with_value(plain, "relay.budget.bytes", 2_000_000)
    wanted = with_value(with_value(small, "relay.link.window_bytes", 900_000), "log.level", "error")
    assert (find_problems(running), find_problems(wanted)) == ([], [])
    found = compare(running, wanted)
    assert found.changed == {"log.level": "error"}
    why = dict(sentence.split(": ", 1) for sentence in found.refused)
    assert why[BYTES] == (
        "cannot change while the member runs; with the present other keys, relay.link.window_bytes: must be at most 1000000, "
        "half of relay.budget.bytes."
    )


def test_a_budget_changes_though_a_key_that_needs_a_restart_names_a_removed_peer() -> None:
    running = with_value(linked(("SFO", "LON")), "relay.when_down", {"SFO": "wait"})
    wanted = with_value(linked(("LON",)), BYTES, 2_000_000)
    found = compare(running, wanted)
    assert sorted(found.changed) == [PEERS, BYTES]
    after = applied(running, found.changed)
    assert compare(after, with_value(wanted, BYTES, 3_000_000)).changed == {BYTES: 3_000_000}


def test_every_reason_is_for_a_key_that_there_is() -> None:
    assert all(any(f"{key}.".startswith(f"{beginning}.") for key in KEYS) for beginning in WHY_NOT)
    assert set(MAY_CHANGE) <= set(KEYS)


def test_a_reload_applies_log_level_budget_and_peers_and_reports_refused_changes(tmp_path: Path) -> None:
    relay: dict[str, Any] = {"bridge": {"peers": {"SFO": ["127.0.0.1:1"]}}}
    file = configure(tmp_path, relay=relay, log={"level": "info"})
    plain = json.loads(file.read_text())
    with node(tmp_path, file, "--insecure", "--name", "A") as process:
        assert process.stderr is not None
        lines = map(json.loads, process.stderr)
        next(line for line in lines if line["event"] == "role")
        file.write_text(json.dumps({**plain, "order": "any"}))
        process.send_signal(signal.SIGHUP)
        told = next(line for line in lines if line["event"] == "configuration reload failed")
        assert "order: must be one of" in told["why"]
        relay["budget"] = {"entries": 77, "bytes": 1_000_000}
        relay["bridge"] = {"peers": {"LON": ["127.0.0.1:1"]}}
        file.write_text(json.dumps({**plain, "relay": relay, "order": "fifo", "log": {"level": "warning"}}))
        process.send_signal(signal.SIGHUP)
        refused = next(line for line in lines if line.get("what", "").startswith("order: "))
        assert refused["what"].endswith("stop all members of the site, then start them.")
        bounds = trio.run(bounds_of, tmp_path / "a.sock", 77)
        assert bounds == {"stack.relay.buffer_entries": 77, "stack.relay.buffer_bytes": 1_000_000}
        assert [link["site"] for link in trio.run(fetch_status, tmp_path / "a.sock")["links"]] == ["LON", "SFO"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
        assert "left" not in [line["event"] for line in lines], "which is logged at level info"


async def bounds_of(socket: Path, entries: int) -> dict[str, int]:
    """The budget as the status shows it, when it has so many entries."""
    with trio.fail_after(LIMIT_S):
        while True:
            queues = {each["queue"]: each["max"] for each in (await fetch_status(socket))["queues"]}
            found = {name: queues[name] for name in ("stack.relay.buffer_entries", "stack.relay.buffer_bytes")}
            if found["stack.relay.buffer_entries"] == entries:
                return found
            await trio.sleep(0.05)
