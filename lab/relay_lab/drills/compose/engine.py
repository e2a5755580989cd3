"""The container engine. Every call blocks, and is made in a thread."""

from __future__ import annotations

import os
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException, NotFound

from relay_lab.drills.child import LAST_WORDS_LINES
from relay_lab.drills.executor import PlaceFailed
from sitestack.model.errors import ConfigurationError

#: Seconds for an answer of the engine, besides a graceful stop.
_TIMEOUT_S = 60
_PROJECT_LABEL = "com.docker.compose.project"
_SERVICE_LABEL = "com.docker.compose.service"


@dataclass(frozen=True, slots=True)
class ContainerState:
    running: bool
    exit_code: int
    #: Process id on this machine; 0 when it does not run.
    pid: int
    #: Engine's name of a network -> address.
    addresses: dict[str, str] = field(default_factory=dict)


class Engine:
    def __init__(self) -> None:
        """Raises ConfigurationError when there is none."""
        if not os.environ.get("DOCKER_HOST", "unix://").startswith("unix://"):
            raise ConfigurationError("relay drill --on compose: the engine must run on this machine, not on another.")
        try:
            self._client = docker.from_env(timeout=_TIMEOUT_S)
        except (DockerException, OSError) as error:
            raise ConfigurationError("relay drill --on compose: no container engine answers on this machine.") from error

    def subnets(self) -> list[str]:
        with _translated("list its networks"):
            networks = self._client.networks.list()
        pools = [pool for network in networks for pool in (network.attrs.get("IPAM") or {}).get("Config") or ()]
        return [pool["Subnet"] for pool in pools if "Subnet" in pool]

    def image_id(self, name: str) -> str:
        """Return the id of an image, which a run keeps."""
        with _translated(f"find the image {name}"):
            return str(self._client.images.get(name).id)

    def containers(self, project: str) -> dict[str, Container]:
        with _translated("list its containers"):
            found = self._client.containers.list(all=True, filters={"label": f"{_PROJECT_LABEL}={project}"})
        return {each.labels[_SERVICE_LABEL]: Container(each) for each in found}

    def disconnect(self, network: str, container: Container) -> None:
        with _translated(f"disconnect {container.name} from {network}"):
            self._client.networks.get(network).disconnect(container.id)

    def connect(self, network: str, container: Container, alias: str, address: str) -> None:
        """Reconnect the container to a network, under its name and address."""
        with _translated(f"connect {container.name} to {network}"):
            self._client.networks.get(network).connect(container.id, aliases=[alias], ipv4_address=address)


class Container:
    def __init__(self, container: Any) -> None:
        self._container = container
        self.id = str(container.id)
        self.name = str(container.name)

    def start(self) -> socket.socket:
        """Start the container. Returns its standard input."""
        with _translated(f"start {self.name}"):
            self._container.start()
            stream = self._container.attach_socket(params={"stdin": 1, "stream": 1})
        # The SDK wraps the socket into a file that can only be read.
        raw: socket.socket = stream._sock
        raw.settimeout(None)
        return raw

    def state(self) -> ContainerState:
        with _translated(f"inspect {self.name}"):
            self._container.reload()
        state = self._container.attrs["State"]
        networks = self._container.attrs["NetworkSettings"]["Networks"]
        addresses = {name: each["IPAddress"] for name, each in networks.items() if each["IPAddress"]}
        return ContainerState(bool(state["Running"]), int(state["ExitCode"]), int(state["Pid"]), addresses)

    def kill(self) -> None:
        with _translated(f"kill {self.name}"):
            self._container.kill()
            self._container.wait(timeout=_TIMEOUT_S)

    def signal(self, name: str) -> None:
        with _translated(f"send {name} to {self.name}"):
            self._container.kill(signal=name)

    def pause(self) -> None:
        with _translated(f"pause {self.name}"):
            self._container.pause()

    def resume(self) -> None:
        with _translated(f"resume {self.name}"):
            self._container.unpause()

    def stop(self, grace_s: float) -> None:
        with _translated(f"stop {self.name}"):
            self._container.stop(timeout=int(grace_s))

    def free(self) -> None:
        """Resume frozen processes: an engine cannot stop a frozen container."""
        with suppress(DockerException, OSError):
            self._container.reload()
            if self._container.status == "paused":
                self._container.unpause()

    def log(self) -> str:
        with _translated(f"read the log of {self.name}"):
            return bytes(self._container.logs(tail=LAST_WORDS_LINES)).decode(errors="replace")

    def copy_out(self, path: str, target: Path) -> None:
        with _translated(f"copy {path} out of {self.name}"), tempfile.TemporaryFile() as archive:
            chunks, _ = self._container.get_archive(path)
            for chunk in chunks:
                archive.write(chunk)
            archive.seek(0)
            with tarfile.open(fileobj=archive) as tar:
                tar.extractall(target, filter="data")


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise PlaceFailed(f"The engine could not {what}: it does not exist.") from error
    except (DockerException, OSError) as error:
        raise PlaceFailed(f"The engine could not {what} ({getattr(error, 'explanation', None) or error}).") from error
