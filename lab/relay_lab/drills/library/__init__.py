"""The drills that come with relay, one file each."""

from __future__ import annotations

from pathlib import Path

from relay.node.config.config_file import load
from relay_lab.drills.plan import Drill
from relay_lab.drills.plan_file import read_drill
from sitestack.model.errors import ConfigurationError

_DIRECTORY = Path(__file__).parent
_SUFFIX = ".yaml"


def drill_names() -> list[str]:
    return sorted(path.stem for path in _DIRECTORY.glob(f"*{_SUFFIX}"))


def find_drill(name: str) -> Drill:
    """Return a shipped drill by its name, or the drill in a file. Raises ConfigurationError with a line for each problem."""
    path = Path(name) if name.endswith(_SUFFIX) else _DIRECTORY / f"{name}{_SUFFIX}"
    if path.parent == _DIRECTORY and name not in drill_names():
        raise ConfigurationError(
            f"There is no drill {name!r}; there are {', '.join(drill_names())}, and files that end with {_SUFFIX}."
        )
    drill, problems = read_drill(load(path))
    if problems:
        raise ConfigurationError("\n".join(f"{path}: {problem}" for problem in problems))
    return drill
