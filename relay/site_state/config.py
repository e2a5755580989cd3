from __future__ import annotations

from dataclasses import dataclass, field

from sitestack.layers.state_transfer import StateTransferConfig


@dataclass(frozen=True, slots=True)
class SiteStateSettings:
    """The application's state, fetched from another site by a member whose own site has none."""

    #: The sites to fetch it from, in turn. Empty: the first member of a site keeps its own state.
    sites: tuple[str, ...] = ()
    #: Time without an answer of a member with a state, after which the application keeps its own. Should exceed
    #: a failover of the other site.
    give_up_s: float = 60.0
    #: Pieces requested at a time (`protocols.state_transfer.chunk_bytes_max` each): more for a long round trip.
    window_pieces: int = 8


@dataclass(frozen=True, slots=True)
class SiteStateConfig:
    """The settings, and the bounds of a state inside a site, which apply between sites too."""

    settings: SiteStateSettings = field(default_factory=SiteStateSettings)
    transfer: StateTransferConfig = field(default_factory=StateTransferConfig)
    #: Bytes of a piece at most: it must fit into a frame of the link, and several into its queue.
    piece_bytes_max: int = 256 * 1024
