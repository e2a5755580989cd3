"""Which stacks are built, and which are refused."""

from __future__ import annotations

import random

import pytest

from sitestack.assembly import build_layers, build_stack, check_layers
from sitestack.config import SiteConfig, find_problems, lan, local, named_hosts
from sitestack.layers.nakack import NakAck
from sitestack.layers.unicast import Unicast
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError
from sitestack.stack.layer import Layer, Local

RNG = random.Random(1)
ME = Local("NYC", Address.make(RNG), "A", RNG)


class Relaying(Layer):
    """Stands for the relay layer."""

    name = "relay"


def test_the_layers_stand_in_the_order_of_the_architecture() -> None:
    stack = build_stack(ME, lan("NYC"), relay_layer=Relaying())
    assert [layer.name for layer in stack.layers] == [
        "batching",
        "relay",
        "state_transfer",
        "sequencer",
        "flow_control",
        "membership",
        "short_ids",
        "stability",
        "fragment",
        "unicast",
        "nakack",
        "failure_detection",
        "discovery",
        "path_mtu",
        "resolver",
    ]


@pytest.mark.conforms("SEQ-17")
@pytest.mark.parametrize("missing", [NakAck, Unicast])
def test_a_sequencer_needs_nakack_and_unicast_below(missing: type[Layer]) -> None:
    layers = [layer for layer in build_layers(ME, lan("NYC")) if type(layer) is not missing]
    sentence = rf"The layer Sequencer needs {missing.__name__} below it, which is not in the stack\."
    with pytest.raises(ConfigurationError, match=sentence):
        check_layers(layers)


def test_a_layer_above_the_one_that_needs_it_does_not_help() -> None:
    layers = build_layers(ME, lan("NYC"))
    nakack = next(layer for layer in layers if type(layer) is NakAck)
    layers.remove(nakack)
    layers.insert(0, nakack)
    with pytest.raises(ConfigurationError, match=r"Sequencer needs NakAck below it, which is above it\."):
        check_layers(layers)


def test_a_layer_that_is_twice_in_the_stack_is_refused() -> None:
    layers = build_layers(ME, lan("NYC"))
    with pytest.raises(ConfigurationError, match=r"The layer Resolver is in the stack twice\."):
        check_layers([*layers, layers[-1]])


@pytest.mark.parametrize(
    "config", [lan("NYC"), local("NYC"), named_hosts("NYC", (Physical("a", 1),), 1)], ids=["lan", "local", "named_hosts"]
)
def test_the_presets_have_no_problems(config: SiteConfig) -> None:
    assert find_problems(config) == []
    build_stack(ME, config)


def test_sites_on_one_network_have_groups_of_their_own() -> None:
    nyc, sfo = lan("NYC").transport.group("NYC"), lan("SFO").transport.group("SFO")
    assert nyc != sfo
    assert nyc == lan("NYC").transport.group("NYC")
