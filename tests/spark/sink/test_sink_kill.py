"""Exactly once: a stream into a real site, whose relay is killed and then the query; each row arrives once everywhere."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.harness.node_sites import NodeSites, node_sites
from tests.spark import killed_query
from tests.spark.killed_query import PATIENCE_S, kill

LAST = "the last one"


def start_query(directory: Path, mode: str, urls: list[str]) -> subprocess.Popen[bytes]:
    files = {"format": "text", "path": str(directory / "source"), "maxFilesPerTrigger": 1}
    return killed_query.start_query(mode, directory / "checkpoint", files, {"format": "relay", "url": ",".join(urls)})


def heard(sites: NodeSites, name: str, last: str | None = None) -> list[str]:
    """The texts that a member has shown so far, or until `last` is one of them."""
    texts: list[str] = []
    with urlopen(f"{sites.urls[name]}/events?from=oldest", timeout=PATIENCE_S if last else 0.3) as stream:
        try:
            for line in stream:
                if line.startswith(b"data: ") and "text" in (about := json.loads(line.removeprefix(b"data: "))):
                    texts.append(about["text"])
                    if texts[-1] == last:
                        break
        except TimeoutError:
            assert last is None
    return texts


class Source:
    """A directory that gets a file of ten rows at each look for arrivals."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows: list[str] = []
        directory.mkdir()

    def grow(self) -> None:
        rows = [str(number) for number in range(len(self.rows), len(self.rows) + 10)]
        hidden = self.directory / f".{len(self.rows):06}"
        hidden.write_text("".join([f"{row}\n" for row in rows]))
        hidden.rename(self.directory / f"{len(self.rows):06}.txt")
        self.rows += rows

    def grow_until(self, sites: NodeSites, name: str, count: int, query: subprocess.Popen[bytes]) -> None:
        """Until this member has shown so many rows."""
        ends = time.monotonic() + PATIENCE_S
        while len(heard(sites, name)) < count:
            assert query.poll() is None, "the query ended by itself"
            assert time.monotonic() < ends
            self.grow()


@pytest.mark.long
@pytest.mark.slow
def test_each_row_arrives_once_through_a_kill_of_the_relay_and_of_the_query(directory: Path) -> None:
    source = Source(directory / "source")
    with node_sites(directory, {"NYC": "AB", "SFO": "D"}) as sites:
        relay, second = sites.status("A")["view"]["members"]
        urls = [sites.urls[relay], sites.urls[second]]
        query = start_query(directory, "follow", urls)
        try:
            source.grow_until(sites, "D", 50, query)
            sites.kill(relay)
            source.grow_until(sites, "D", len(heard(sites, "D")) + 50, query)
            for _ in range(20):
                source.grow()
        finally:
            kill(query)
        assert len(heard(sites, "D")) < len(source.rows)
        query = start_query(directory, "drain", urls)
        try:
            assert query.wait(PATIENCE_S) == 0
        except subprocess.TimeoutExpired:
            kill(query)
            raise
        sites.post(second, LAST)
        for name in (second, "D"):
            assert sorted(map(int, heard(sites, name, LAST)[:-1])) == list(range(len(source.rows))), name
