"""The options of the sink, and of a source from a running site: its nodes, and their token."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from relay.client.exchange import is_url
from sitestack.model.errors import ConfigurationError

#: The options of the sink; option names are case-insensitive.
OPTIONS = ("url", "token", "timeout")
SOURCE_OPTIONS = (*OPTIONS, "rows", "startingoffsets", "endingoffsets")
_OF_SPARK = ("checkpointlocation", "queryname")
#: Time (s) for which a row is tried, or nodes are asked for events: longer than a failover, or than
#: a site's backlog of a burst.
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """The HTTP addresses of equivalent nodes, and their token."""

    urls: tuple[str, ...]
    token: str = field(default="", repr=False)
    #: Time (s) for which a row is tried, or nodes are asked.
    timeout_s: float = TIMEOUT_S


def parse_target(options: Mapping[str, str], who: str = "Sink relay", known: Collection[str] = OPTIONS) -> Target:
    """Parse the options of `who`. Raises ConfigurationError, never with the token."""
    values = {key.lower(): value for key, value in options.items()}
    unknown = sorted(values.keys() - {*known, *_OF_SPARK})
    if unknown:
        raise ConfigurationError(f"{who} has no option {', '.join(unknown)} for a site; it has {', '.join(known)}.")
    urls = tuple(url.strip().rstrip("/") for url in values.get("url", "").split(",") if url.strip())
    if not urls:
        raise ConfigurationError(f'{who} needs the HTTP addresses of nodes: .option("url", "http://10.0.0.1:7800").')
    for url in urls:
        _require_url(url, who)
    token = values.get("token", "").strip()
    if not all("!" <= each <= "~" for each in token):
        raise ConfigurationError(f"{who}, option token: must have visible ASCII characters only.")
    return Target(urls, token, _seconds(values.get("timeout"), who))


def _require_url(url: str, who: str) -> None:
    if not is_url(url) or not url.isascii() or any(each in url for each in "?#@"):
        shown = url.rpartition("@")[2]  # the part before it may be a password
        raise ConfigurationError(f"{who}, option url: {shown!r} is no address such as http://10.0.0.1:7800.")


def _seconds(text: str | None, who: str) -> float:
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise ConfigurationError(f"{who}, option timeout: must be seconds, above 0 and at most 86400, not {text!r}.")
    return seconds
