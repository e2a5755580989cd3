"""The text that the demo publishes: the lines of a file."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from sitestack.model.errors import ConfigurationError


def default_text() -> bytes:
    """The default text, which every installation has: the license of this package."""
    text = distribution("sitestack").read_text("licenses/LICENSE")
    if text is None:
        raise ConfigurationError("relay demo: this installation carries no license text; name a file with --input.")
    return text.encode()


def read_lines(file: Path | None) -> list[bytes]:
    """The lines of the file, or of the default text, without their ends. Raises ConfigurationError when there are none."""
    try:
        text = default_text() if file is None else file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"relay demo: --input {file} cannot be read: {error.strerror}.") from error
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ConfigurationError(f"relay demo: --input {file} holds no line, so there is nothing to relay.")
    return lines
