"""The kinds of places for drills, by name, each imported on demand."""

from __future__ import annotations

from typing import Literal

from relay_lab.drills.executor import Venue
from sitestack.model.errors import ConfigurationError

VenueName = Literal["local", "compose", "kubernetes"]


def find_venue(name: VenueName, *, insecure: bool = False, before: str = "") -> Venue:
    """Return the place of this name. `insecure`: members have no keys. `before`: command of the release before an
    upgrade.

    Raises ConfigurationError when a required program is missing, or when the place always has keys.
    """
    if insecure and name != "local":
        raise ConfigurationError(f"relay drill --on {name}: --insecure is for --on local; elsewhere members have keys.")
    if before and name != "local":
        raise ConfigurationError(f"relay drill --on {name}: --before is for --on local.")
    match name:
        case "local":
            from relay_lab.drills.local import LocalVenue  # noqa: PLC0415

            return LocalVenue(insecure=insecure, before=before)
        case "compose":
            try:
                from relay_lab.drills.compose.venue import ComposeVenue  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise ConfigurationError(
                    f"relay drill --on compose needs the package {error.name}: pip install 'relay-lab[compose]'"
                ) from error
            return ComposeVenue()
        case "kubernetes":
            from relay_lab.drills.kubernetes.venue import KubernetesVenue  # noqa: PLC0415

            return KubernetesVenue()
