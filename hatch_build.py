"""The build hook of the compiled wheel: mypyc turns most pure modules, from the same source, into one extension.

It is off unless RELAY_COMPILED=1 is in the environment, so `pip install .` gives the pure wheel, which runs everywhere. Why so,
and what it gains: docs/explanation/decisions/0028-compiled-optionally.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Folders whose modules are compiled, but for faces (`__init__.py`, which only import), settings and what INTERPRETED names.
COMPILED = (
    "relay/gateway/",
    "relay/layer/",
    "relay/replica/",
    "relay/unicast/",
    "sitestack/journal/",
    "sitestack/layers/",
    "sitestack/model/",
    "sitestack/seal/",
    "sitestack/stack/",
    "sitestack/wire/",
)

#: How the name of a module of settings ends. They are read from files by their annotations, and described by the comments in
#: their source; mypyc keeps neither.
SETTINGS = "config.py"

_BASE = "is inherited from by interpreted classes, which may not inherit from compiled ones"
_RECORDS = "records that inherit from an interpreted class, that `fast_frozen` makes faster, or that have a ClassVar"
_BUILTIN = "a class in it inherits from a builtin type, which a compiled one may not"
_RARE = "runs too rarely to matter"
_INSTRUMENT = "is no part of a node: it proves and measures"

#: Pure modules, or folders of them, that stay as they are -> why. Records keep the shape that `dataclass` gives them: the codec
#: reads their annotations, and mypyc would take a ClassVar for a field.
INTERPRETED = {
    "relay/__main__.py": _RARE,
    "relay/aio.py": _RARE,
    "relay/blocking.py": _RARE,
    "relay/check.py": _INSTRUMENT,
    "relay/events.py": _RECORDS,
    "relay/gateway/wire.py": _RECORDS,
    "relay/replica/entries.py": _RECORDS,
    "relay/replica/held_entries.py": _RECORDS,
    "relay/replica/site_state.py": _RECORDS,
    "relay/replica/spill_record.py": _RECORDS,
    "relay/report/": _INSTRUMENT,
    "relay/router/": _RARE,
    "relay/site_state/": _RARE,
    "relay/structures/": _RARE,
    "sitestack/assembly.py": _RARE,
    "sitestack/calls/": _RARE,
    "sitestack/config.py": _RARE,
    "sitestack/journal/records.py": _RECORDS,
    "sitestack/layers/discovery/headers.py": _RECORDS,
    "sitestack/layers/failure_detection/headers.py": _RECORDS,
    "sitestack/layers/flow_control/headers.py": _RECORDS,
    "sitestack/layers/fragment/headers.py": _RECORDS,
    "sitestack/layers/membership/headers.py": _RECORDS,
    "sitestack/layers/nakack/headers.py": _RECORDS,
    "sitestack/layers/path_mtu/layer.py": _RECORDS,
    "sitestack/layers/sequencer/headers.py": _RECORDS,
    "sitestack/layers/short_ids.py": _RECORDS,
    "sitestack/layers/stability.py": _RECORDS,
    "sitestack/layers/state_transfer/headers.py": _RECORDS,
    "sitestack/layers/unicast/headers.py": _RECORDS,
    "sitestack/model/address.py": _BUILTIN,
    "sitestack/model/address_cache.py": _RECORDS,
    "sitestack/model/envelope.py": _RARE,
    "sitestack/model/errors.py": _BASE,
    "sitestack/model/events.py": _BASE,
    "sitestack/model/fast_frozen.py": _RARE,
    "sitestack/model/frame.py": _BASE,
    "sitestack/model/gap.py": _RECORDS,
    "sitestack/model/message.py": _BUILTIN,
    "sitestack/model/native.py": _RARE,
    "sitestack/model/state_events.py": _RECORDS,
    "sitestack/model/view.py": _RECORDS,
    "sitestack/promises/": _INSTRUMENT,
    "sitestack/structures/": _RARE,
}


class CompiledBuildHook(BuildHookInterface[Any]):
    """What hatchling calls."""

    def dependencies(self) -> list[str]:
        """What compiling takes; the pure wheel takes nothing."""
        return ["mypy[mypyc]>=1.13"] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the extensions beside their sources, which stay for tracebacks and for who reads them."""
        if not _is_wanted() or self.target_name != "wheel" or version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="relay-compiled-")
        for extension in compile_into(Path(self.root), Path(self._scratch.name)):
            build_data["force_include"][str(extension)] = extension.relative_to(Path(self._scratch.name) / "lib").as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The extensions are in the wheel."""
        if not build_data["pure_python"]:
            self._scratch.cleanup()


def _is_wanted() -> bool:
    return os.environ.get("RELAY_COMPILED") == "1"


def compiled_modules(root: Path) -> Iterator[str]:
    """The paths of all modules to compile, relative to the root of the project."""
    for folder in COMPILED:
        for file in sorted((root / folder).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            if file.name != "__init__.py" and not file.name.endswith(SETTINGS) and not path.startswith(tuple(INTERPRETED)):
                yield path


def compile_into(root: Path, scratch: Path) -> list[Path]:
    """Compile for the Python that runs this. Returns the extensions, in the folder `lib` of `scratch` as in the project."""
    from mypyc.build import mypycify  # noqa: PLC0415 # only here, as the pure wheel is made without it
    from setuptools import Distribution  # noqa: PLC0415

    # Types are checked elsewhere with all packages installed; missing ones are ignored here.
    options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports", f"--cache-dir={scratch}/cache"]
    here = Path.cwd()
    os.chdir(root)
    try:
        modules = mypycify(
            [*options, *compiled_modules(root)],
            opt_level="1",
            debug_level="0",
            multi_file=True,
            target_dir=f"{scratch}/c",
            group_name="sitestack",
        )
        command = Distribution({"name": "sitestack", "ext_modules": modules}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = f"{scratch}/lib", f"{scratch}/temp"
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(here)
    return sorted((scratch / "lib").rglob("*.so"))
