"""Names that a package loads on first use: declared once, as imports for type checkers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def declared(file: str) -> dict[str, str]:
    """Return name -> module of the imports in the block `if TYPE_CHECKING` of a package's file."""
    [block] = [node for node in ast.parse(Path(file).read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(each.module) for each in imports for alias in each.names}


def loader(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Return `__getattr__` of a package, which raises AttributeError for a name that it does not have."""

    def load(name: str) -> Any:
        if name in ("aio", "blocking"):
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load
