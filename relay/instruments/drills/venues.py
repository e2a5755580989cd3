"""The kinds of places for drills, by name. Each is imported only when it is asked for: most runs need no engine or cluster."""

from __future__ import annotations

from typing import Literal

from relay.instruments.drills.executor import Venue
from sitestack.model.errors import ConfigurationError

VenueName = Literal["local", "compose", "kubernetes"]


def find_venue(name: VenueName) -> Venue:
    """Raises ConfigurationError when what the place needs is not installed."""
    match name:
        case "local":
            from relay.instruments.drills.local import LocalVenue  # noqa: PLC0415

            return LocalVenue()
        case "compose":
            try:
                from relay.instruments.drills.compose import ComposeVenue  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise ConfigurationError(
                    f'relay drill --on compose needs the package {error.name}: in a checkout, pip install ".[drills]".'
                ) from error
            return ComposeVenue()
        case "kubernetes":
            from relay.instruments.drills.kubernetes import KubernetesVenue  # noqa: PLC0415

            return KubernetesVenue()
