"""The places of drills and their requirements."""

from __future__ import annotations

import builtins
import gc
import sys
from typing import Any, get_args

import pytest
import trio

from relay_lab.drills.compose import venue as compose
from relay_lab.drills.library import find_drill
from relay_lab.drills.venues import VenueName, find_venue
from sitestack.model.errors import ConfigurationError


@pytest.fixture
def without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide docker, as on a machine with a node only."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "docker":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    for name in [
        name for name in sys.modules if name.partition(".")[0] == "docker" or name.startswith("relay_lab.drills.compose")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.parametrize("name", get_args(VenueName))
def test_every_place_can_be_found(name: VenueName) -> None:
    assert type(find_venue(name)).__name__.lower() == f"{name}venue"


@pytest.mark.usefixtures("without_docker")
def test_a_missing_package_is_told_with_what_brings_it() -> None:
    with pytest.raises(ConfigurationError, match="needs the package docker: pip install relay-lab"):
        find_venue("compose")
    find_venue("local")
    find_venue("kubernetes")


async def test_all_drills_can_be_done_on_this_machine() -> None:
    for name in ("disk-full", "wan-half-open", "split-site"):
        await find_venue("local").prepare(find_drill(name))


def test_what_containers_have_not_is_refused_to_them() -> None:
    for name, told in (("slow-consumer", "stop-reader needs --on local"), ("disk-full", "fill-disk needs --on local")):
        assert [each.partition(":")[0] for each in compose._refuse_verbs(find_drill(name))] == [told]
    assert not list(compose._refuse_verbs(find_drill("stalled-loop")))


# The SDK leaves its socket open after a refused connection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_an_engine_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/at/all.sock")
    with pytest.raises(ConfigurationError, match="no container engine answers on this machine"):
        trio.run(compose.ComposeVenue().prepare, find_drill("kill-relay"))
    gc.collect()


def test_an_engine_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="the engine must run on this machine, not on another"):
        trio.run(compose.ComposeVenue().prepare, find_drill("kill-relay"))
