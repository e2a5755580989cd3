"""The target of the sink: the nodes of a site, and their token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from sitestack.model.errors import ConfigurationError

#: The options of the sink; option names are case-insensitive.
OPTIONS = ("url", "token", "timeout")
#: Options that Spark adds.
_OF_SPARK = ("checkpointlocation", "queryname")
#: Time (s) for which a row is tried: longer than a failover, or than a site's backlog of a burst.
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """The HTTP addresses of equivalent nodes, and their token."""

    urls: tuple[str, ...]
    token: str = field(default="", repr=False)
    #: Time (s) for which one row is tried.
    timeout_s: float = TIMEOUT_S


def parse_target(options: Mapping[str, str]) -> Target:
    """Parse the options of a writer. Raises ConfigurationError, never with the token."""
    values = {key.lower(): value for key, value in options.items()}
    unknown = sorted(values.keys() - {*OPTIONS, *_OF_SPARK})
    if unknown:
        raise ConfigurationError(f"Sink relay has no option {', '.join(unknown)}; it has {', '.join(OPTIONS)}.")
    urls = tuple(url.strip().rstrip("/") for url in values.get("url", "").split(",") if url.strip())
    if not urls:
        raise ConfigurationError('Sink relay needs the HTTP addresses of nodes: .option("url", "http://10.0.0.1:7800").')
    for url in urls:
        _require_url(url)
    token = values.get("token", "").strip()
    if not all("!" <= each <= "~" for each in token):
        raise ConfigurationError("Sink relay, option token: must have visible ASCII characters only.")
    return Target(urls, token, _seconds(values.get("timeout")))


def _require_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_fit = SplitResult("", "", "", "", ""), False
    if not is_fit or parts.query or parts.fragment or "@" in url or not all("!" <= each <= "~" for each in url):
        shown = url.rpartition("@")[2]  # the part before it may be a password
        raise ConfigurationError(f"Sink relay, option url: {shown!r} is no address such as http://10.0.0.1:7800.")


def _seconds(text: str | None) -> float:
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise ConfigurationError(f"Sink relay, option timeout: must be seconds, above 0 and at most 86400, not {text!r}.")
    return seconds
