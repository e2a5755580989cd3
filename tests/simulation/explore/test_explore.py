"""Exhaustive exploration of three small models; each finds a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from relay.gateway.watermarks import Watermarks
from sitestack.layers.nakack.receiver_windows import ReceiverWindows
from sitestack.layers.unicast.headers import UnicastAck
from sitestack.layers.unicast.sender import Sender
from tests.simulation.explore.explorer import Report, explore
from tests.simulation.explore.link_model import LinkModel
from tests.simulation.explore.unicast_model import UnicastModel
from tests.simulation.explore.view_model import ViewModel

A, B = ("NYC", "A"), ("NYC", "B")


def explored(model: Any, states_max: int = 1_000_000) -> Report:
    report = explore(model, states_max)
    assert not report.violation, "\n".join(map(str, (*report.path, report.violation)))
    return report


@pytest.mark.conforms("U2-18")
def test_two_unicasts_and_one_close_in_every_interleaving() -> None:
    assert explored(UnicastModel("AA", closes=1, timers=1)).complete


@pytest.mark.slow
def test_a_failover_of_a_link_in_many_interleavings() -> None:
    assert explored(LinkModel((A,), kills=1), 400).states >= 400


@pytest.mark.slow
def test_a_view_change_with_a_joiner_in_many_interleavings() -> None:
    assert explored(ViewModel("B", kills=1), 1_500).states >= 1_500


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "of", "states_max"),
    [
        (UnicastModel, ("AA", 1, 4), 0),
        (UnicastModel, ("AAB", 1, 1), 0),
        (UnicastModel, ("AA", 2, 2), 0),
        (LinkModel, ((A,), 1), 0),
        # No timer: the first one may be the age of the budget, which drops entries.
        (LinkModel, ((A, B), 1, 0, 1), 15_000),
        (ViewModel, ("", 1), 0),
        (ViewModel, ("B", 0), 0),
        (ViewModel, ("B", 1, 0, 1), 60_000),
    ],
)
def test_larger_bounds(model: Callable[..., Any], of: tuple[Any, ...], states_max: int) -> None:
    """Without `states_max`, all states are met."""
    assert explored(model(*of), states_max or 1_000_000).complete is not bool(states_max)


handle_ack, installed = Sender.handle_ack, Watermarks.installed


def believe(sender: Sender, header: UnicastAck, now: float) -> Any:
    return handle_ack(sender, replace(header, conn_id=sender.conn_id), now)


def skip(windows: ReceiverWindows, cut: object) -> list[Any]:
    windows.cut = {}
    return []


@pytest.mark.parametrize(
    ("model", "owner", "method", "planted", "promise"),
    [
        # an acknowledgement of a closed connection settles frames of the next one (U6)
        (UnicastModel("AA", 1, 1), Sender, "handle_ack", believe, "undelivered"),
        # a relay sends entries that no other member holds (R11)
        (LinkModel((A,)), Watermarks, "installed", lambda marks, alone: installed(marks, alone=True), "words"),
        # a member installs a view without the frames up to the cut (S5)
        (ViewModel("B"), ReceiverWindows, "reach", skip, "differ"),
    ],
    ids=["unicast", "link", "view"],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, model: Any, owner: type, method: str, planted: Any, promise: str
) -> None:
    monkeypatch.setattr(owner, method, planted)
    report = explore(model, 1_000)
    assert promise in report.violation
