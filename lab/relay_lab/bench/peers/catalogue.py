"""Which peers there are, what of ours each of them does too, and whether it is installed."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

PeerName = Literal["jgroups", "jgroups5", "zenoh", "zeromq"]

#: Bytes of the smallest message of a peer: the checked header of each message.
PEER_SIZE_MIN = 16

_ORDER = "it has no order that all receivers share"
_FIFO = ("local-throughput", "unicast-rtt", "relay-rtt", "relay-flat-out")
_ALL = (*_FIFO, "total-order", "own-delivery")


class PeerMissing(Exception):
    """A requested peer is not installed; the text names the missing part."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: PeerName
    title: str
    scenarios: tuple[str, ...]
    #: The Python package, by the name that is imported and the one that is installed; empty for one written in Java.
    module: str = ""
    package: str = ""
    #: The major version of the jar, for one written in Java.
    major: str = ""

    def why_not(self, scenario: str) -> str | None:
        """Why a scenario means something else with it; None when it means the same."""
        if scenario in self.scenarios:
            return None
        return _ORDER if scenario in ("total-order", "own-delivery") else "this is about members of Relay alone"


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("jgroups", "JGroups 2", _ALL, major="2"),
        Peer("jgroups5", "JGroups 5", _ALL, major="5"),
        Peer("zenoh", "Zenoh", _FIFO, "zenoh", "eclipse-zenoh"),
        Peer("zeromq", "ZeroMQ", _FIFO, "zmq", "pyzmq"),
    )
}


@dataclass(frozen=True, slots=True)
class Installed:
    peer: Peer
    version: str
    jar: Path | None = None


def find_peers(names: Sequence[str], jars: Sequence[Path]) -> list[Installed]:
    """Return the peers by their names, each once. Raises PeerMissing for the first one that is not there."""
    return [_find_java(PEERS[name], jars) if PEERS[name].major else _find_python(PEERS[name]) for name in dict.fromkeys(names)]


def _find_python(peer: Peer) -> Installed:
    if find_spec(peer.module) is None:
        hint = "pip install 'relay-lab[peers]'"
        raise PeerMissing(f"--peer {peer.name} needs the Python package {peer.package}, which is not installed: {hint}.")
    try:
        return Installed(peer, version(peer.package))
    except PackageNotFoundError:
        return Installed(peer, "?")


def _find_java(peer: Peer, jars: Sequence[Path]) -> Installed:
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            raise PeerMissing(f"--peer {peer.name} needs the program {program}, which is not on the PATH.")
    for jar in jars:
        found = _jar_version(jar)
        if found.partition(".")[0] == peer.major:
            return Installed(peer, found, jar.resolve())
    hint = "give it with --jgroups-jar or in RELAY_JGROUPS_JAR"
    raise PeerMissing(f"--peer {peer.name} needs the jar org.jgroups:jgroups of a version {peer.major}: {hint}.")


def _jar_version(jar: Path) -> str:
    """Return the version in the manifest. Raises PeerMissing if the file is no jar of JGroups."""
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read("META-INF/MANIFEST.MF").decode("utf-8", "replace").splitlines()
            archive.getinfo("org/jgroups/JChannel.class")
    except (OSError, KeyError, zipfile.BadZipFile):
        raise PeerMissing(f"{jar} is not a jar of JGroups.") from None
    said = [line.partition(":")[2].strip() for line in lines if line.startswith("Implementation-Version:")]
    return said[0] if said else ""
