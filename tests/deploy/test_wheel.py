"""The wheel of `sitestack` in new environments: without extras, with `node`, and with the floors of its dependencies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from relay_lab.drills.layout import draw_group
from tests.deploy.test_distribution import build
from tests.harness.sockets import free_ports

PROJECT = Path(__file__).parents[2]
TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NODE = TABLE["optional-dependencies"]["node"]

#: Packages of the library alone: its five dependencies, and theirs.
LIBRARY = {
    *("attrs", "cffi", "cryptography", "idna", "msgpack", "outcome", "pycparser", "pyyaml", "sitestack", "sniffio"),
    *("sortedcontainers", "structlog", "trio"),
}
#: Further packages for an old Python, an old trio or an old cryptography.
OF_SOME = {"typing-extensions"}

TWO_MEMBERS = """
import sitestack, trio

async def main():
    network = sitestack.MemoryNetwork()
    config = sitestack.local("NYC")
    async with sitestack.open_channel(config, name="A", transport=network.open()) as a:
        async with sitestack.open_channel(config, name="B", transport=network.open()) as b:
            await a.send(b"from A")
            async for event in b:
                if isinstance(event, sitestack.Message):
                    print(event.payload.decode())
                    return

trio.run(main)
"""

TWO_SITES = """
import relay, sys, trio
from relay import BridgeConfig, MemoryNetwork, NodeConfig, Physical, RelaySettings

ports = dict(zip(("NYC", "SFO"), map(int, sys.argv[1:])))

def config(site):
    places = {each: Physical("127.0.0.1", port) for each, port in ports.items()}
    peers = {each: (place,) for each, place in places.items() if each != site}
    return NodeConfig(site=site, relay=RelaySettings(bridge=BridgeConfig(bind=places[site], peers=peers)))

async def main():
    async with relay.open_channel(config("NYC"), name="A", transport=MemoryNetwork().open(), insecure=True) as a:
        async with relay.open_channel(config("SFO"), name="D", transport=MemoryNetwork().open(), insecure=True) as d:
            await a.send(b"from NYC")
            async for event in d:
                if isinstance(event, relay.Message):
                    print(event.payload.decode())
                    return

trio.run(main)
"""


def find_pythons() -> list[str]:
    """Every Python from 3.11 on that is on the PATH and starts, one of each minor version."""
    found = {sys.version_info[1]: sys.executable}
    for minor in range(11, 20):
        program = shutil.which(f"python3.{minor}")
        if program is not None and subprocess.run([program, "--version"], capture_output=True).returncode == 0:
            found.setdefault(minor, program)
    return [found[minor] for minor in sorted(found)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(".", tmp_path_factory.mktemp("wheel"))


class Environment:
    """A new virtual environment, outside the checkout."""

    def __init__(self, folder: Path, python: str) -> None:
        subprocess.run([python, "-m", "venv", str(folder / "env")], check=True, capture_output=True)
        self.folder = folder
        self.programs = folder / "env" / "bin"

    def install(self, what: str, constraints: list[str]) -> None:
        """Install with pip; skip the test if no package index answers."""
        file = self.folder / "constraints.txt"
        file.write_text("\n".join(constraints), encoding="utf-8")
        done = self.run("python", "-m", "pip", "install", "--quiet", "--constraint", str(file), what)
        if "No matching distribution found" in done.stderr or "NewConnectionError" in done.stderr:
            pytest.skip("no package index answers here: nothing was installed")
        assert done.returncode == 0, done.stderr

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its folder, without the environment variables of Python."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [str(self.programs / program), *arguments]
        return subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=120)

    def packages(self) -> set[str]:
        """The installed packages, without pip and setuptools, which venv brings."""
        lines = self.run("python", "-m", "pip", "list", "--format=freeze").stdout.splitlines()
        return {re.split("==| @ ", line)[0].lower().replace("_", "-") for line in lines} - {"pip", "setuptools"}

    def check_library(self) -> None:
        """Import everything public, then run two members of a site, and two sites."""
        names = "import sitestack, relay; [getattr(each, name) for each in (sitestack, relay) for name in each.__all__]"
        assert self.run("python", "-W", "error", "-c", names).stderr == ""
        assert self.run("python", "-c", TWO_MEMBERS).stdout == "from A\n"
        assert self.run("python", "-c", TWO_SITES, *map(str, free_ports(2))).stdout == "from NYC\n"


def locked() -> list[str]:
    """The versions of a node's lock file."""
    text = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    return re.findall(r"(?m)^[\w.-]+==[\w.]+", text)


def floors() -> list[str]:
    """The lowest version of each dependency that the project allows."""
    return [each.replace(">=", "==") for each in (*TABLE["dependencies"], *NODE)]


@pytest.mark.slow
@pytest.mark.parametrize("python", find_pythons(), ids=lambda path: Path(path).name)
def test_the_library_runs_without_extras_and_the_command_names_its_own(wheel: Path, python: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path, python)
    environment.install(str(wheel), locked())
    assert environment.packages() - OF_SOME == LIBRARY
    environment.check_library()
    for command in (["relay"], ["python", "-m", "relay", "node", "nyc.yaml"]):
        done = environment.run(*command)
        sentence = "relay: click is not installed: pip install 'sitestack[node]'\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def run_node(environment: Environment) -> None:
    """Start a node that serves HTTP, wait until it is ready, and stop it with SIGTERM."""
    group, multicast_port = draw_group()
    transport = f"{{interface: 127.0.0.1, multicast_group: {group}, multicast_port: {multicast_port}}}"
    [port] = free_ports(1)
    (environment.folder / "nyc.yaml").write_text(f"site: NYC\ntransport: {transport}\n", encoding="utf-8")
    command = [str(environment.programs / "relay"), "node", "nyc.yaml", "--insecure", "--http", str(port), "--status", "a.sock"]
    with subprocess.Popen(command, cwd=environment.folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            ready = ("-m", "relay.node.http.probe", f"http://127.0.0.1:{port}/readyz")
            while environment.run("python", *ready).returncode:
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline
                time.sleep(0.1)
            process.terminate()
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize("versions", ["locked", "floors"])
def test_a_node_runs_with_the_extra(wheel: Path, versions: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path, sys.executable)
    environment.install(f"{wheel}[node]", floors() if versions == "floors" else locked())
    environment.check_library()
    run_node(environment)
    for missing, command in (("relay-lab", "drill"), ("pyspark-relay", "audit")):
        done = environment.run("relay", command)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"the command comes with {missing}, which is not installed: pip install {missing}" in done.stderr
    environment.run("python", "-m", "pip", "uninstall", "--yes", "starlette")
    done = environment.run("relay", "node", "nyc.yaml", "--insecure", "--http", "0", "--status", "a.sock")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "relay: starlette is not installed: pip install 'sitestack[node]'"
