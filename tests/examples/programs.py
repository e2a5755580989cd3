"""The examples as separate processes: a test types lines, waits for output, and can kill them."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from relay_lab.drills.tether import tie
from tests.harness.sockets import free_ports

PROJECT = Path(__file__).parent.parent.parent
#: A machine that is busy with other tests takes its time.
LIMIT_S = 60.0


class Program:
    """A running program. A thread reads its output all the time, so that it never blocks."""

    def __init__(self, arguments: list[str]) -> None:
        self.printed: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = subprocess.Popen(
            tie([sys.executable, *arguments]), cwd=PROJECT, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self._stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def say(self, *lines: str) -> None:
        """Type lines."""
        self._stdin.writelines(f"{line}\n" for line in lines)

    def expect(self, wanted: Callable[[str], bool] | str) -> str:
        """Wait for a line; those before it are in `printed`, and so is it."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{wanted} was not printed, but {self.printed}") from None
            assert line is not None, f"ended without {wanted}: {self.printed}"
            self.printed.append(line)
            if line == wanted if isinstance(wanted, str) else wanted(line):
                return line

    def kill(self) -> None:
        """Kill the program without a goodbye."""
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """Close its input, so that the program leaves. Returns its exit code; the rest of its output is read."""
        self._stdin.close()
        code: int = self._process.wait(LIMIT_S)
        while (line := self._lines.get()) is not None:
            self.printed.append(line)
        return code

    def close(self) -> None:
        """End the process in any state."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        self._stdin.close()
        self._stdout.close()


Start = Callable[..., Program]


@contextmanager
def programs() -> Iterator[Start]:
    """Starts examples, `start("chat", site, "A")`, or modules, `start("-m", "relay", "node")`. None outlives the block."""
    with ExitStack() as stack:

        def start(what: str, *arguments: str) -> Program:
            program = Program([what if what.startswith("-") else f"examples/{what}.py", *arguments])
            stack.callback(program.close)
            return program

        yield start


def new_site() -> str:
    """Return a new site for each test: the multicast group follows from the name."""
    return f"example-{os.getpid()}-{random.SystemRandom().getrandbits(32):08x}"


def two_sites(directory: Path, **settings: object) -> dict[str, str]:
    """The configurations of two linked sites on this machine, NYC and SFO, under names that no other test has."""
    names = {site: new_site() for site in ("NYC", "SFO")}
    ports = free_ports(2)
    files = {}
    for (site, name), port in zip(names.items(), ports, strict=True):
        [(other, other_port)] = [(each, number) for each, number in zip(names.values(), ports, strict=True) if each != name]
        file = directory / f"{site}.yaml"
        file.write_text(
            f"site: {name}\ntransport: {{interface: 127.0.0.1}}\nrelay:\n  bridge:\n"
            f"    bind: 127.0.0.1:{port}\n    peers: {{{other}: ['127.0.0.1:{other_port}']}}\n"
        )
        files[site] = str(file)
        files[f"{site} name"] = name
    return files
