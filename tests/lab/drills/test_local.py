"""How links are harmed on this machine: by wires where they can do it all, else by proxies, else not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay_lab.drills import local as module
from relay_lab.drills.library import drill_names, find_drill
from relay_lab.drills.local import LocalVenue, refuse_links, takes_wires
from relay_lab.drills.member import Earlier, find_earlier
from relay_lab.drills.plan import Action, Drill
from relay_lab.drills.venues import find_venue
from sitestack.model.errors import ConfigurationError


def drill(*harm: tuple[Any, str]) -> Drill:
    return Drill(name="mine", method=tuple([Action(do, link=link, amount=0.5) for do, link in harm]))


@pytest.mark.parametrize(
    ("harm", "wired"),
    [
        ([("cut", "NYC.B - NYC.C")], True),
        ([("mtu", "NYC.B - NYC"), ("heal", "NYC.B - NYC")], True),
        ([("slow", "NYC.B - NYC"), ("cut", "NYC - SFO")], True),
        ([("mtu", "NYC - SFO")], True),
        ([("cut", "NYC - SFO"), ("slow", "NYC - SFO")], False),
        ([("cut", "NYC.B - NYC.C"), ("lose", "NYC - NYC")], False),
        ([("half-open", "NYC.B > NYC.C")], False),
        ([], False),
    ],
)
def test_wires_are_for_links_inside_sites_and_long_packets_if_they_can_do_all_that_is_done(
    harm: list[tuple[Any, str]], wired: bool
) -> None:
    assert takes_wires(drill(*harm)) is wired


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ([("mtu", "NYC.B - NYC")], ["mtu needs user namespaces, and of the kernel veth, bridge, sch_htb and cls_u32."]),
        (
            [("slow", "NYC.B - NYC"), ("lose", "NYC - NYC")],
            ["slow can only be done with no other harm to links than cut, stall, slow, mtu, heal."],
        ),
        (
            [("mtu", "NYC - SFO"), ("delay", "NYC - SFO")],
            ["mtu can only be done with no other harm to links than cut, stall, slow, mtu, heal."],
        ),
        ([("slow", "NYC - SFO"), ("lose", "NYC - NYC")], []),
        ([("cut", "NYC.B - NYC.C")], []),
    ],
)
def test_what_no_proxy_does_is_refused_without_wires(harm: list[tuple[Any, str]], told: list[str]) -> None:
    assert list(refuse_links(drill(*harm), wired=False)) == told
    assert list(refuse_links(drill(*harm), wired=True)) == []


@pytest.mark.parametrize("has", [True, False])
async def test_the_kernel_is_asked_for_wires_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    asked = []

    async def has_wires() -> bool:
        asked.append(True)
        return has

    monkeypatch.setattr(module, "has_wires", has_wires)
    refused = []
    for name in drill_names():
        try:
            await LocalVenue().prepare(find_drill(name))
        except ConfigurationError as error:
            refused.append((name, str(error).partition(" user")[0]))
    wanting = [name for name in drill_names() if takes_wires(find_drill(name))]
    assert wanting == ["hole", "hole-one-way", "hostile-bridge", "hostile-lan", "mtu", "slow-wire", "split-site", "split-twice"]
    assert len(asked) == len(wanting)
    told = [("mtu", "relay drill --on local: mtu needs"), ("slow-wire", "relay drill --on local: slow needs")]
    assert [each for each in refused if each[0] != "upgrade"] == ([] if has else told)


async def test_an_upgrade_needs_an_earlier_release(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="upgrade needs --before, the Python of an environment"):
        await LocalVenue().prepare(find_drill("upgrade"))
    with pytest.raises(ConfigurationError, match=r"--before .*: no relay runs with it"):
        await LocalVenue(before=str(tmp_path / "python")).prepare(find_drill("upgrade"))
    python = tmp_path / "earlier"
    python.write_text(
        '#!/bin/sh\ntest "$*" = "-I -m relay --version" && echo "relay, version 0.0.9 (pure)"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    assert await find_earlier(str(python)) == Earlier(str(python), "relay, version 0.0.9 (pure)")
    await LocalVenue(before=str(python)).prepare(find_drill("upgrade"))
    with pytest.raises(ConfigurationError, match=r"--before .*: the drill upgrades no member"):
        await LocalVenue(before=str(python)).prepare(find_drill("kill-relay"))


def test_elsewhere_nobody_can_be_upgraded() -> None:
    with pytest.raises(ConfigurationError, match="--before is for --on local"):
        find_venue("compose", before="python")
