"""Build the stack of a member from its configuration, and reject stacks that cannot work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sitestack.config import HEADERS_BELOW_BYTES, SiteConfig
from sitestack.layers.batching import Batching
from sitestack.layers.discovery import Discovery
from sitestack.layers.failure_detection import FailureDetection
from sitestack.layers.flow_control import FlowControl
from sitestack.layers.fragment import Fragment, FragmentConfig
from sitestack.layers.membership import Membership
from sitestack.layers.nakack import NakAck
from sitestack.layers.path_mtu import PathMtu
from sitestack.layers.resolver import Resolver
from sitestack.layers.sequencer import Sequencer
from sitestack.layers.short_ids import ShortIdsLayer
from sitestack.layers.stability import Prompt, Stability
from sitestack.layers.state_transfer import StateTransfer
from sitestack.layers.unicast import Unicast
from sitestack.layers.uniform import Uniform
from sitestack.model.errors import ConfigurationError
from sitestack.seal.envelope import OVERHEAD_BYTES
from sitestack.stack.layer import Layer, Local
from sitestack.stack.stack import Stack
from sitestack.wire.codec import long_name_bytes

#: Layer -> the layers that must be somewhere below it.
NEEDS_BELOW: dict[type[Layer], tuple[type[Layer], ...]] = {
    Batching: (Membership,),
    StateTransfer: (Sequencer,),
    Sequencer: (Membership, Unicast, NakAck),
    FlowControl: (Unicast, NakAck),
    Membership: (Unicast, NakAck, FailureDetection, Discovery),
    Uniform: (Membership, Stability),
    ShortIdsLayer: (Stability,),
    Stability: (Unicast, NakAck),
    Fragment: (Unicast, NakAck),
    Unicast: (PathMtu, Resolver),
    NakAck: (PathMtu, Resolver),
    FailureDetection: (Resolver,),
    Discovery: (Resolver,),
    PathMtu: (Resolver,),
}


def build_stack(
    local: Local, config: SiteConfig, *, relay_layer: Layer | None = None, shares_state: bool = False, sealed: bool = False
) -> Stack:
    """Return the stack of one member; `relay_layer` goes right below batching.

    `shares_state`: the application provides its state to joiners and installs another's when it
    joins. `sealed`: datagrams are sealed and therefore larger. A sealed datagram at a wrong address
    proves nothing, since a stranger may have sent a copy. Raises ConfigurationError.
    """
    overhead_bytes = OVERHEAD_BYTES if sealed else 0
    shrunk = config.transport.datagram_bytes_max - overhead_bytes - long_name_bytes(config.site)
    config = replace(config, transport=replace(config.transport, datagram_bytes_max=shrunk))
    fetches = relay_layer is not None
    layers = build_layers(local, config, shares_state=shares_state, fetches=fetches, overhead_bytes=overhead_bytes)
    if relay_layer is not None:
        layers.insert(1, relay_layer)
    if config.agreement == "uniform":
        layers.insert(1, Uniform())
    check_layers(layers)
    return Stack(local.address, layers, config.site, config.transport.datagram_bytes_max, tells_misdirected=not sealed)


def build_layers(
    local: Local, config: SiteConfig, *, shares_state: bool = False, fetches: bool = False, overhead_bytes: int = 0
) -> list[Layer]:
    """Return the layers of a site, top to bottom.

    `fetches`: the layer above them fetches entries before it joins (`Offered`). `overhead_bytes`:
    how much larger a datagram is on the network than in the stack.
    """
    protocols = config.protocols
    return [
        Batching(local, protocols.batching),
        StateTransfer(local, protocols.state_transfer, takes_part=shares_state),
        Sequencer(local, replace(protocols.sequencer, order=config.order)),
        FlowControl(local, protocols.flow_control),
        Membership(local, config.membership, fetches=fetches),
        ShortIdsLayer(local, protocols.short_ids),
        Stability(local, protocols.stability, _prompt(config, is_relayed=fetches)),
        Fragment(local, _fragment_config(config)),
        Unicast(local, protocols.unicast),
        NakAck(local, protocols.nakack),
        FailureDetection(local, protocols.failure_detection),
        Discovery(local, config.discovery, config.parameters),
        PathMtu(local, protocols.path_mtu, config.transport.datagram_bytes_max, overhead_bytes),
        Resolver(local, replace(protocols.resolver, multicast=config.transport.has_multicast)),
    ]


def _prompt(config: SiteConfig, *, is_relayed: bool) -> Prompt:
    """Return the members whose stability reports a delivery or the relay waits for.

    Uniform agreement delays each delivery until all report; the relay waits for its successor.
    """
    if config.agreement == "uniform":
        return "everybody"
    return "second in line" if is_relayed else "nobody"


def _fragment_config(config: SiteConfig) -> FragmentConfig:
    """Limit a piece so that it fits into a datagram with the headers of the layers below."""
    return replace(
        config.protocols.fragment,
        fragment_bytes_max=config.transport.datagram_bytes_max - HEADERS_BELOW_BYTES,
    )


def check_layers(layers: Sequence[Layer]) -> None:
    """Raise ConfigurationError if a layer is twice in the stack or lacks a layer below it (SEQ-17)."""
    kinds = [type(layer) for layer in layers]
    for place, kind in enumerate(kinds):
        if kind in kinds[:place]:
            raise ConfigurationError(f"The layer {kind.__name__} is in the stack twice.")
        for needed in NEEDS_BELOW.get(kind, ()):
            if needed not in kinds[place:]:
                where = "is above it" if needed in kinds else "is not in the stack"
                raise ConfigurationError(f"The layer {kind.__name__} needs {needed.__name__} below it, which {where}.")
