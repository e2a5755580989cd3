"""The settings of taking the application's state from another site."""

from __future__ import annotations

from dataclasses import dataclass, field

from sitestack.layers.state_transfer import StateTransferConfig


@dataclass(frozen=True, slots=True)
class SiteStateSettings:
    """The application's state, taken from another site by a member that has nobody to get it from in its own site."""

    #: The sites to take it from, tried in turn. Empty: the first member of a site begins with the state that it has.
    sites: tuple[str, ...] = ()
    #: Seconds for which nobody answers who has a state, after which the application goes on with its own. Should be longer than
    #: a failover of the other site.
    give_up_s: float = 60.0
    #: Pieces asked for at a time (`protocols.state_transfer.chunk_bytes_max` each): more on a link with a long round trip.
    window_pieces: int = 8


@dataclass(frozen=True, slots=True)
class SiteStateConfig:
    """The settings, with the bounds of a state inside a site, which hold between sites too."""

    settings: SiteStateSettings = field(default_factory=SiteStateSettings)
    transfer: StateTransferConfig = field(default_factory=StateTransferConfig)
    #: Bytes of a piece at most: it has to fit into a frame of the link, and some into its queue.
    piece_bytes_max: int = 256 * 1024
