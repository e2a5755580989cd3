"""What becomes of each command in the documentation: it is run here, run by another test, or cannot be run, and why."""

from __future__ import annotations

import sys
from typing import NamedTuple

from tests.docs.shell_blocks import ROOT


class Story(NamedTuple):
    """Commands of the documentation that are run one after the other, in a directory with the examples and `nyc.yaml`."""

    commands: tuple[str, ...]
    #: Shell commands that prepare it.
    before: str = ""
    #: Replacements in the documented command: placeholders, and values that take too long for a test.
    instead: tuple[tuple[str, str], ...] = ()
    #: Of the last command.
    exits: tuple[int, ...] = (0,)


_JOURNALS = "relay journal generate journals/ --deliveries 2000"
_FIRST_WORD = " | cut -d' ' -f1"
_KEYS = "relay keygen DIR --site NYC"
_BOTH_KEYS = "relay keygen keys --site NYC --site SFO"
_FOR_A_WHILE = "timeout --preserve-status --signal TERM 4 relay"
_ROUTER = ("relay router", f"{_FOR_A_WHILE} router")
_PORTS = ((":7900", ":0"), (":7801", ":0"))
_NODE = "examples/nyc.yaml --name A --keys keys/NYC"
#: With the environment that runs the tests, in place of one that would first have to be installed.
_MAKE = f"make --file {ROOT}/Makefile VENV={sys.prefix}" + "".join(
    [f" --assume-old={sys.prefix}/.{each}-installed" for each in ("runtime", "dev")]
)

#: Run whenever the tests are.
CHEAP = (
    Story(("relay --version", "relay node --print-config", "relay drill --list")),
    Story(("relay keygen keys --site NYC --site SFO",)),
    Story(("relay keygen keys --site NYC --site SFO && (umask 077 && openssl rand -hex 32 >keys/token)",)),
    Story(("relay keygen DIR --site NYC --site SFO", "relay keygen DIR --site NYC --renew")),
    Story(("openssl rand -hex 32 > token; chmod 600 token",)),
    Story(("relay config check FILE", "relay node FILE --print-config"), instead=(("FILE", "examples/nyc.yaml"),)),
    Story(("relay check journals",), _JOURNALS),
    Story(
        ("relay keys list DIR/NYC", "relay keys add DIR/NYC", "relay keys use DIR/NYC ID", "relay keys remove DIR/NYC OLD"),
        f"{_KEYS}; OLD=$(relay keys list DIR/NYC{_FIRST_WORD})",
        (
            ("relay keys add DIR/NYC", f"ID=$(relay keys add DIR/NYC{_FIRST_WORD})"),
            ("NYC ID", "NYC $ID"),
            ("NYC OLD", "NYC $OLD"),
        ),
    ),
    Story(
        (
            "tar --create --file backup.tar keys journals",
            "umask 077 && mkdir restored && tar --extract --preserve-permissions --file backup.tar --directory restored",
            "relay keys list restored/keys/NYC",
            "relay check restored/journals",
        ),
        f"{_BOTH_KEYS}; {_JOURNALS}",
    ),
    Story(("make reference",), "mkdir -p docs/reference", (("make", _MAKE),)),
    Story(("python -m tests.docs.prose",)),
    Story(("make sbom",), f"cp {ROOT}/requirements*.lock {ROOT}/pyproject.toml .", (("make", _MAKE),)),
)

#: Run with the long tests.
LONG = (
    Story(("make demo",), instead=(("make", _MAKE),)),
    Story(("relay demo --discovery ipv6",)),
    Story(("relay bench local-throughput --seconds 3 --runs 1",)),
    Story(("relay bench total-order --sizes 100 --runs 1",)),
    Story((".venv/bin/relay simulate --seeds 0:60",), instead=((".venv/bin/relay", "relay"),)),
    Story(("relay simulate --plan routed",), instead=(("routed", "routed --seeds 0:20"),)),
    Story(
        ("relay simulate --seeds N --save-plan FILE", "relay simulate FILE", "relay simulate small.json"),
        "relay simulate --seeds 7 --save-plan small.json",
        (("seeds N", "seeds 7"), ("FILE", "plan.json")),
    ),
    Story(("relay simulate --seeds 1234",)),
    Story(
        (
            "relay journal generate DIR --deliveries N --skew 0.5 --segment-bytes 16777216 --seed 1",
            "relay journal generate DIR",
        ),
        instead=(("DIR --deliveries N", "skewed --deliveries 2000"), ("DIR", "journals")),
    ),
    Story(
        ("relay node FILE", "relay node CONFIG --http 7800"),
        _BOTH_KEYS,
        (("relay node", f"{_FOR_A_WHILE} node"), ("FILE", _NODE), ("CONFIG", _NODE), ("7800", "0")),
    ),
    Story(
        ("relay router nyc.yaml --bind 10.1.0.5:7900 --http 10.1.0.5:7801",),
        instead=(_ROUTER, ("10.1.0.5", "127.0.0.1"), *_PORTS),
    ),
    Story(
        ("relay router nyc.yaml sfo.yaml --bind 0.0.0.0:7900 --http 127.0.0.1:7801",),
        instead=(_ROUTER, ("0.0.0.0", "127.0.0.1"), *_PORTS),
    ),
    # It finds the multicasts of a site of one unanswered, and the other site away: that is 1.
    Story(("relay doctor nyc.yaml --keys keys/NYC",), exits=(0, 1)),
    Story(("relay doctor CONFIG",), instead=(("CONFIG", "nyc.yaml --keys keys/NYC"),), exits=(0, 1)),
    Story(("relay drill kill-relay",)),
    Story(("relay drill kill-relay --report out.html",)),
    Story(("relay drill kill-relay --insecure",)),
    Story(("relay audit journals/",), _JOURNALS),
    Story(("relay audit journals/ --json",), _JOURNALS),
    Story(("relay audit journals/ --out audit/",), _JOURNALS),
    Story(("relay audit journals/ --master local[2]",), _JOURNALS),
)

#: The session of the README, which `test_by_hand_each_in_a_terminal` runs as it stands there.
SESSION = (
    "relay node examples/nyc.yaml --name A --keys keys/NYC --publish - --events - --http 7800",
    "relay node examples/sfo.yaml --name D --keys keys/SFO --publish - --events -",
    "relay sub examples/nyc.yaml --keys keys/NYC",
    'relay pub examples/sfo.yaml --keys keys/SFO "hello, New York"',
    "relay status",
)

_STATUS = "tests/relay/node/http/test_token.py::test_no_output_of_a_node_contains_its_token"
_SITE = "tests/relay/cli/test_site_command.py::test_the_site_command_switches_a_site_offline_and_online"
_DRILL = "tests/lab/drills/test_drill_command.py::test_a_short_drill_loses_nothing"
_BENCH = "tests/lab/bench"
_AUTONOMY = f"{_BENCH}/test_autonomy.py::test_a_pair_is_measured_and_the_other_site_gets_everything_after_the_cut"
_PIPELINE = "tests/examples/test_pipeline.py"
_ANALYTICS = "tests/spark"

#: The test that runs the same command line, with values and further options of its own where it stands in for a reader.
ELSEWHERE = {
    "relay bench site-autonomy": _AUTONOMY,
    "python examples/pipeline/run.py out/": f"{_PIPELINE}::test_the_totals_are_the_posted_orders_through_a_kill_of_the_relay",
    "python examples/pipeline/run.py out/ --master spark://host:7077": (
        f"{_PIPELINE}::test_the_same_job_runs_by_spark_submit_on_a_cluster"
    ),
    "relay site offline NYC": _SITE,
    "relay site offline SFO": _SITE,
    "relay site online SFO": _SITE,
    "relay status --json": _STATUS,
    "relay status --node URL": _STATUS,
    "relay status --token FILE": _STATUS,
    "python -m hatchling build": "tests/deploy/test_distribution.py::wheel",
    "spark-submit spark/pyspark_relay/audit_command.py journals/ --out audit/": (
        f"{_ANALYTICS}/test_spark_submit.py::test_spark_submit_prints_the_verdict_of_the_command_and_writes_the_report"
    ),
}

_CONTAINERS = "needs Docker with its daemon; tests/deploy/test_compose_up.py starts these containers where there is one"
_CLUSTER = "needs a Kubernetes cluster; tests/deploy/test_kubernetes_apply.py where RELAY_KUBERNETES_IMAGE is set"
_PEERS = f"needs peers that are installed; {_BENCH}/test_peers.py measures each beside us for a moment, where it is"
_INDEX = "needs a package index"
_EARLIER = "needs an earlier release"
_MINUTES = "takes many minutes, and the whole machine"
_QUIET = "needs user namespaces, and a quiet machine: what fails it is how much later messages are under attack"
_REWRITES = "rewrites a page of this checkout; `make test` compares the page with what this would write"
_TUTORIAL = "tests/docs/test_tutorial.py starts, and kills, the program with a group for the test alone"
_SUITE = "is, or contains, the tests that would run it"

#: By the beginning of the command: why no test runs it.
NOT_RUN = {
    "docker ": _CONTAINERS,
    "RELAY_LOAD_PAUSE_S=0.5 docker ": _CONTAINERS,
    "members() { docker compose ": _CONTAINERS,
    'read -r relay second rest <<< "$(members nyc-b)"': _CONTAINERS,
    "for member in nyc-a nyc-b nyc-c sfo-d sfo-e sfo-f; do\ndocker compose ": _CONTAINERS,
    "for m in d e f; do docker network ": _CONTAINERS,
    "sleep 3": "belongs to the steps with Docker around it",
    "kubectl ": _CLUSTER,
    "kind load ": _CLUSTER,
    "for site in nyc sfo; do for pod in relay-0 relay-1 relay-2; do\nkubectl ": _CLUSTER,
    "RELAY_KUBERNETES_IMAGE=": _CLUSTER,
    "systemctl ": "needs systemd, and a unit that is installed; tests/deploy/test_manifests.py has systemd read it",
    "make audit-dependencies": "asks a public database",
    "make browser": "installs packages of the system",
    "make docs": "installs the tools of the documentation from a package index",
    "make conformance": _REWRITES,
    "make help": "prints the comments of the Makefile",
    "make mutants": _MINUTES,
    "make test-all": _SUITE,
    "make test": _SUITE,
    ".venv/bin/pytest tests/sitestack/layers/sequencer": _SUITE,
    "pytest ": _SUITE,
    ".venv/bin/python -m tests.mutants ": _MINUTES,
    "python -m tests.mutants": _MINUTES,
    "python -m tests.docs.wire_page": _REWRITES,
    "python -m tests.spark.standalone ": _MINUTES,
    "python -m tests.relay.node.late_site ": _MINUTES,
    "relay bench all ": _MINUTES,
    "relay bench total-order --peer ": _PEERS,
    "relay soak": _MINUTES,
    "relay simulate --seeds 0:10000": _MINUTES,
    "relay drill wan-flap --repeat 10 --json": _MINUTES,
    "relay drill NAME --repeat ": _MINUTES,
    "relay drill kill-relay --on compose": _CONTAINERS,
    "relay drill mine.yaml --journal DIR": "is a drill of the reader's own",
    "relay drill hostile-lan": _QUIET,
    "relay drill upgrade --before PYTHON": _EARLIER,
    "relay drill upgrade --before before/bin/python": _EARLIER,
    "git worktree add ../relay-before 104fbd4": "needs the history of the repository",
    "python -m venv before && before/bin/pip install ../relay-before": f"{_EARLIER}, and a package index",
    "pip install ": _INDEX,
    "python -m venv .venv && .venv/bin/pip install .": _INDEX,
    ".venv/bin/python tally.py ": _TUTORIAL,
    'pkill -KILL -f "tally.py nyc.yaml A"': _TUTORIAL,
    "mvn dependency:get ": "needs a repository of Java packages",
    "git grep ": "needs a checkout with git; tests/docs/test_traps.py finds each code in the files",
    "curl -H 'Idempotency-Key: order-4711' ": "needs a node at port 7800; examples/http/post.sh is run instead",
    "curl -N 'http://127.0.0.1:7800/events?from=oldest'": "does not end; examples/http/follow.sh is run instead",
}
