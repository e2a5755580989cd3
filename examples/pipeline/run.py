"""The pipeline in one command: two sites on this machine, orders at both, and totals.py.

python examples/pipeline/run.py OUT [--master spark://host:7077] [--seconds 90]

Half of the orders are posted twice, as by a client without an answer. The node that the job reads is
killed after its first messages. At the end the totals are compared with the posted orders. Exits
with 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow.parquet as pq
import pyspark

from pyspark_relay.java import find_java
from relay.client import Client
from relay_lab.drills.tether import tie

SITES = {"NYC": ("A", "B"), "SFO": ("D", "E")}
READY_S = 120.0
WINDOW_S = 5


class Sites:
    """Four nodes, as processes."""

    def __init__(self, out: Path, stack: ExitStack) -> None:
        self.urls = {name: f"http://127.0.0.1:{free_port()}" for names in SITES.values() for name in names}
        bridges = {name: f"127.0.0.1:{free_port()}" for name in self.urls}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        run_directory = stack.enter_context(TemporaryDirectory(prefix="relay-"))
        for site, names in SITES.items():
            multicast = {"interface": "127.0.0.1", "multicast_port": free_port()}
            peers = {other: [bridges[each] for each in SITES[other]] for other in SITES if other != site}
            for name in names:
                config = {"site": site, "transport": multicast, "relay": {"bridge": {"bind": bridges[name], "peers": peers}}}
                file = out / f"{name}.yaml"
                file.write_text(json.dumps(config))
                command = [sys.executable, "-m", "relay", "node", str(file), "--name", name, "--insecure"]
                log = stack.enter_context((out / f"{name}.log").open("wb"))
                command += ["--http", self.urls[name].removeprefix("http://")]
                environment = {**os.environ, "RELAY_RUN_DIRECTORY": run_directory}
                process = subprocess.Popen(tie(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
                stack.callback(process.wait)
                stack.callback(process.kill)
                self.processes[name] = process

    def urls_of(self, site: str) -> list[str]:
        return [self.urls[name] for name in SITES[site]]

    def relay_of(self, site: str) -> str:
        with urlopen(f"{self.urls[SITES[site][0]]}/status", timeout=5) as answer:
            return str(json.load(answer)["view"]["members"][0])

    def until_ready(self) -> None:
        """Wait until all members see each other. Raises TimeoutError."""
        ends = time.monotonic() + READY_S
        for url in self.urls.values():
            while not is_ready(url, len(self.urls)):
                if time.monotonic() > ends:
                    raise TimeoutError(f"{url} is not ready after {READY_S:g} s; its log is in the output directory")
                time.sleep(0.2)


def is_ready(url: str, members: int) -> bool:
    with suppress(URLError, ConnectionError), urlopen(f"{url}/readyz?members={members}", timeout=5):
        return True
    return False


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Shop:
    """Posts orders at one site, and remembers them."""

    def __init__(self, site: str, urls: list[str], seed: int) -> None:
        self.site = site
        self.client = Client(urls)
        self.random = random.Random(seed)
        #: Begin of a window (seconds since 1970) -> number of orders, and their sum in cents.
        self.orders: Counter[int] = Counter()
        self.cents: Counter[int] = Counter()

    def order(self, number: int) -> None:
        """Post an order, perhaps twice."""
        now, cents = time.time(), self.random.randrange(100, 10_000)
        begin = int(now // WINDOW_S * WINDOW_S)
        self.orders[begin] += 1
        self.cents[begin] += cents
        about = {
            "id": f"{self.site}-{number}",
            "customer": self.random.choice(("ann", "bob", "eve")),
            "amount": cents / 100,
            "placed": datetime.fromtimestamp(now, UTC).isoformat(),
        }
        for _ in range(self.random.randint(1, 2)):
            self.client.publish(json.dumps(about).encode(), key=f"order-{about['id']}")


def start_job(out: Path, urls: list[str], master: str | None, seconds: float) -> subprocess.Popen[bytes]:
    """Start totals.py on the embedded Spark, or by spark-submit."""
    job = [str(Path(__file__).parent / "totals.py"), "--url", ",".join(urls), "--out", str(out), "--seconds", str(seconds)]
    if master is None:
        return subprocess.Popen(tie([sys.executable, *job]))
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(tie([str(home / "bin" / "spark-submit"), "--master", master, *job]), env=environment)


def compare(out: Path, shops: list[Shop]) -> bool:
    """Print the totals of the finished windows beside the posted orders. Return whether they agree."""
    rows: list[dict[str, Any]] = pq.read_table(out / "totals").to_pylist()
    last = max((row["begin"] for row in rows), default=datetime.fromtimestamp(0, UTC)).timestamp()
    agrees = bool(rows)
    for shop in shops:
        got = {
            int(row["begin"].timestamp()): (row["orders"], round(row["amount"] * 100))
            for row in rows
            if row["site"] == shop.site
        }
        posted = {begin: (shop.orders[begin], shop.cents[begin]) for begin in shop.orders if begin <= last}
        agrees &= got == posted and len(rows) == len({(row["begin"], row["site"]) for row in rows})
        print(
            f"{shop.site}: {sum(n for n, _ in posted.values())} orders posted, {sum(n for n, _ in got.values())} in the totals"
        )
    return agrees


def main() -> int:
    parser = argparse.ArgumentParser(description="Two sites, orders, and their totals")
    parser.add_argument("out", type=Path)
    parser.add_argument("--master", help="run totals.py by spark-submit on this cluster")
    parser.add_argument("--seconds", type=float, default=90.0, help="duration of the job")
    options = parser.parse_args()
    out: Path = options.out.absolute()
    out.mkdir(parents=True)
    with ExitStack() as stack:
        sites = Sites(out, stack)
        sites.until_ready()
        relay = sites.relay_of("NYC")
        urls = [sites.urls[relay], *[url for url in sites.urls_of("NYC") if url != sites.urls[relay]]]
        job = start_job(out, urls, options.master, options.seconds)
        stack.callback(job.kill)
        shops = [Shop(site, sites.urls_of(site), seed) for seed, site in enumerate(SITES)]
        number = 0
        while job.poll() is None:
            number += 1
            for shop in shops:
                shop.order(number)
            time.sleep(0.05)
            if sites.processes[relay].poll() is None and any((out / "messages").glob("*.parquet")):
                print(f"Killed {relay}, which the job reads, and which relays for NYC, after {number} orders at each site.")
                sites.processes[relay].kill()
    agrees = job.returncode == 0 and compare(out, shops)
    print("PASS" if agrees else "FAIL")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
