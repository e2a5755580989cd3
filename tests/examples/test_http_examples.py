"""The clients of examples/http during a relay kill: each receives every published message once, in order."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from relay_lab.drills.tether import tie
from tests.examples.programs import PROJECT
from tests.harness.node_sites import LIMIT_S, node_sites, until

CLIENTS = PROJECT / "examples" / "http"
LINES = 24


def commands(language: str, directory: Path) -> tuple[list[str], list[str]]:
    """How to publish, and how to follow, in this language. Skips where there is no toolchain for it."""
    if shutil.which(language) is None:
        pytest.skip(f"the {language} client is not exercised: there is no {language} here")
    if language == "curl":
        return [str(CLIENTS / "post.sh")], [str(CLIENTS / "follow.sh")]
    if language == "node":
        client = ["node", str(CLIENTS / "client.mjs")]
        return [*client, "post"], [*client, "follow"]
    program = directory / "client"
    subprocess.run(["go", "build", "-o", program, CLIENTS / "client.go"], check=True, cwd=directory)
    return [str(program), "post"], [str(program), "follow"]


@contextmanager
def follower(command: list[str], file: Path) -> Iterator[None]:
    """Run a client that follows; its output is in the file."""
    with file.open("w") as out:
        process = subprocess.Popen(tie(command), stdout=out, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def texts(file: Path) -> list[str]:
    """Return the printed texts of a follower: texts, or objects with a text."""
    lines = [line[:-1] for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line)["text"] if line.startswith("{") else line for line in lines]


def wait_for(seen: list[Path], count: int) -> None:
    """Wait until each follower has printed that many lines."""
    until(lambda: all(len(texts(file)) >= count for file in seen))


@pytest.mark.slow
@pytest.mark.parametrize(
    "languages", [("curl", "node"), pytest.param(("go",), marks=pytest.mark.long)], ids=lambda each: " and ".join(each)
)
def test_each_message_once_through_a_relay_kill(languages: tuple[str, ...], directory: Path) -> None:
    clients = {language: commands(language, directory) for language in languages}
    with node_sites(directory, {"NYC": "AB", "SFO": "D"}) as sites, ExitStack() as stack:
        relay, second = sites.status("A")["view"]["members"]
        near, far = [sites.urls[relay], sites.urls[second]], [sites.urls["D"]]
        seen = []
        for language, (_, follow) in clients.items():
            for place, urls in (("near", near), ("far", far)):
                seen.append(directory / f"{language} {place}")
                stack.enter_context(follower([*follow, *urls], seen[-1]))
        posters = {
            language: subprocess.Popen(tie([*post, f"{language}-1", *near]), stdin=subprocess.PIPE, text=True)
            for language, (post, _) in clients.items()
        }
        expected = {language: [f"{language} {n}" for n in range(LINES)] for language in languages}
        for language, poster in posters.items():
            assert poster.stdin is not None
            poster.stdin.write("".join([f"{line}\n" for line in expected[language]]))
            poster.stdin.close()
        wait_for(seen, LINES // 4)
        sites.kill(relay)
        for poster in posters.values():
            assert poster.wait(LIMIT_S) == 0
        wait_for(seen, LINES * len(languages))
        for file in seen:
            heard = texts(file)
            by_language = {language: [text for text in heard if text.startswith(language)] for language in languages}
            assert by_language == expected, file.name
