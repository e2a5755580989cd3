"""Containers as a place for drills: the image is built once; every run is a separate project."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

import relay
from relay.node.config.config_file import fill_in, load
from relay_lab.drills.child import run_command
from relay_lab.drills.compose.detours import Detours, leads_by_proxies, plan_detours, start_detours
from relay_lab.drills.compose.engine import Engine
from relay_lab.drills.compose.executor import ComposeExecutor, Setting
from relay_lab.drills.compose.packets import refuse_links
from relay_lab.drills.compose.project import (
    TOKEN,
    Topology,
    config_file,
    derive_configuration,
    derive_project,
    draw_subnets,
    key_makers,
    read_topology,
)
from relay_lab.drills.executor import Executor, Place, PlaceFailed
from relay_lab.drills.network import Network
from relay_lab.drills.plan import Drill
from relay_lab.drills.tether import afterwards
from sitestack.model.errors import ConfigurationError

COMPOSE_FILE = "docker-compose.yml"
_OPTION = "relay drill --on compose"
#: Prefix of project names, by which leftovers are recognised.
_PREFIX = "relay-drill-"
#: Seconds for a command of Compose that fetches nothing.
_LIMIT_S = 180.0
#: Seconds for a build.
_BUILD_LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class _Ready:
    """Shared by all runs; made once by `prepare`."""

    engine: Engine
    resolved: Mapping[str, Any]
    topology: Topology
    configurations: Mapping[str, Mapping[str, Any]]
    image: str


class ComposeVenue:
    """The compose file in the working directory, or else the one that this code came with."""

    def __init__(self) -> None:
        self._ready: _Ready | None = None

    async def prepare(self, drill: Drill) -> None:
        """Read the file, refuse unsupported drills, and build the image. Raises ConfigurationError."""
        file = find_project() / COMPOSE_FILE
        engine = await trio.to_thread.run_sync(Engine)
        resolved = json.loads(await _compose(["--file", str(file), "config", "--format", "json"]))
        topology, configurations = read_sites(file, resolved)
        if refusals := [*topology.refuse(drill), *_refuse_verbs(drill), *refuse_links(drill)]:
            raise ConfigurationError("\n".join(f"{_OPTION}: {refusal}" for refusal in refusals))
        name = resolved["services"][next(iter(topology.services.values()))]["image"]
        builder = [
            each for each, service in resolved["services"].items() if service.get("image") == name and "build" in service
        ]
        await _compose(["--file", str(file), "build", *builder[:1]])
        image = await trio.to_thread.run_sync(engine.image_id, name)
        self._ready = _Ready(engine, resolved, topology, configurations, image)

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        assert self._ready is not None
        return _open(self._ready, drill, directory, journal)


def find_project() -> Path:
    """Return the directory of the compose file. Raises ConfigurationError."""
    for directory in (Path.cwd(), Path(relay.__file__).parent.parent):
        if (directory / COMPOSE_FILE).is_file():
            return directory
    raise ConfigurationError(f"{_OPTION}: there is no {COMPOSE_FILE} in the working directory; run it in a checkout of relay.")


def read_sites(file: Path, resolved: Mapping[str, Any]) -> tuple[Topology, Mapping[str, Mapping[str, Any]]]:
    """Return the topology of a compose file, and the configuration files of its sites. Raises ConfigurationError."""
    try:
        files = dict.fromkeys(filter(None, map(config_file, resolved["services"].values())))
        configurations = {each: plain for each in files if isinstance(plain := load(Path(each)), dict) and "site" in plain}
        return read_topology(resolved, configurations), configurations
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{_OPTION}: {file} does not describe sites of relay.") from error


def _refuse_verbs(drill: Drill) -> Iterator[str]:
    if drill.attacks:
        yield "Attacks need --on local: they are directed at sites of the drill itself only."
    if drill.does("upgrade"):
        yield "upgrade needs --on local: containers all run the image of the compose file."
    if drill.does("stop-reader"):
        yield "stop-reader needs --on local: in containers the engine itself reads the output."
    if drill.does("duplicate", "reorder"):
        yield "duplicate and reorder need --on local: nothing between containers does that to packets."
    if drill.does("fill-disk", "free-disk"):
        yield "fill-disk needs --on local: in containers the journals share one volume."


@asynccontextmanager
async def _open(ready: _Ready, drill: Drill, directory: Path, journal: Path) -> AsyncIterator[Executor]:
    system = random.SystemRandom()
    project = f"{_PREFIX}{system.getrandbits(32):08x}"
    file = directory / "compose.json"
    taken = await trio.to_thread.run_sync(ready.engine.subnets)
    topology = ready.topology
    subnets = draw_subnets([*topology.networks.values(), topology.wan], taken, system)
    seats = list(topology.services)
    detours = plan_detours(seats, subnets[topology.wan]) if leads_by_proxies(drill) else None
    files = _configurations(ready, drill, directory, subnets)
    plain = derive_project(ready.resolved, topology, ready.image, files, subnets, detours, blockable=drill.does("block"))
    file.write_text(json.dumps({"name": project, **plain}, indent=2), encoding="utf-8")
    executor: ComposeExecutor | None = None
    async with _swept(["--file", str(file)]), trio.open_nursery() as nursery:
        try:
            # Cancelled half-way, it would leave containers that `down` does not find.
            with trio.CancelScope(shield=True):
                await _compose(["--file", str(file), "create", "--no-build", "--quiet-pull"], PlaceFailed)
            executor = await _executor(ready, drill, project, file, subnets, journal, detours, nursery)
            yield executor
        finally:
            with trio.CancelScope(shield=True):
                if executor is not None:
                    await executor.abort()
            nursery.cancel_scope.cancel()


async def _executor(
    ready: _Ready,
    drill: Drill,
    project: str,
    file: Path,
    subnets: Mapping[str, str],
    journal: Path,
    detours: Detours | None,
    nursery: trio.Nursery,
) -> ComposeExecutor:
    topology = ready.topology
    containers = await trio.to_thread.run_sync(ready.engine.containers, project)
    config, _ = fill_in(_derived(ready, drill, drill.sites[0], subnets))
    assert config.http.bind is not None
    assert config.relay.bridge.bind is not None
    network = None if detours is None else Network()
    if detours is not None and network is not None:
        await start_detours(detours, config.relay.bridge.bind.port, network, nursery)
    setting = Setting(
        engine=ready.engine,
        containers={seat: containers[service] for seat, service in topology.services.items()},
        services=topology.services,
        site_networks={site: f"{project}_{name}" for site, name in topology.networks.items()},
        wan=f"{project}_{topology.wan}",
        http_port=config.http.bind.port,
        token=await _make_keys(file, key_makers(ready.resolved)),
        journal=config.journal.directory,
        detour=network,
        blockable=drill.does("block"),
    )
    return ComposeExecutor(setting, journal)


async def _make_keys(file: Path, makers: Sequence[str]) -> str:
    """Make the keys of the run; return the token for HTTP. Raises PlaceFailed."""
    if not makers:
        return ""
    await _compose(["--file", str(file), "up", "--no-build", "--wait", *makers], PlaceFailed)
    told = await _compose(["--file", str(file), "exec", "--no-TTY", makers[0], "cat", TOKEN], PlaceFailed)
    return told.decode().strip()


@asynccontextmanager
async def _swept(project: list[str]) -> AsyncIterator[None]:
    """Remove the project at the end of the block, even if this process is killed in it."""
    remove = [*project, "down", "--volumes", "--remove-orphans", "--timeout", "0"]
    sweeper = await trio.lowlevel.open_process(
        afterwards(["docker", "compose", *remove]), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await _compose(remove, PlaceFailed)
            assert sweeper.stdin is not None
            await sweeper.stdin.send_all(b"\n")
            await sweeper.wait()


def _configurations(ready: _Ready, drill: Drill, directory: Path, subnets: Mapping[str, str]) -> dict[str, str]:
    """Write the configuration file of each site (as JSON, which is YAML)."""
    files = {}
    for site in drill.sites:
        path = directory / f"{site}.json"
        path.write_text(json.dumps(_derived(ready, drill, site, subnets), indent=2), encoding="utf-8")
        # inside the container another user reads the file
        path.chmod(0o644)
        files[site] = str(path)
    return files


def _derived(ready: _Ready, drill: Drill, site: str, subnets: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a site, without multicast where traffic control acts inside sites:
    it cannot tell receivers apart.
    """
    shaped = drill.harms_sites and drill.does("slow")
    base = ready.configurations[ready.topology.files[site]]
    return derive_configuration(base, drill, subnets[ready.topology.networks[site]], multicast=not shaped)


async def _compose(arguments: Sequence[str], error: type[Exception] = ConfigurationError) -> bytes:
    """Run `docker compose` out of reach of Ctrl-C.

    Raises `error` when the command fails, PlaceFailed when it does not end.
    """
    if shutil.which("docker") is None:
        raise ConfigurationError(f"{_OPTION}: there is no docker command on this machine.")
    command = ["docker", "compose", "--progress", "quiet", *arguments]
    what = next(word for word in ("config", "build", "create", "up", "exec", "down") if word in arguments)
    limit_s = _BUILD_LIMIT_S if what == "build" else _LIMIT_S
    done = await run_command(command, limit_s, name=f"docker compose {what}", own_session=True)
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise error(f"docker compose {what} failed: {said[-600:] or 'it gave no reason'}")
    return bytes(done.stdout)
