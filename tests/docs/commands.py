"""What becomes of each shell command in the documentation: it is run here, run by another test, or cannot be run, and why."""

from __future__ import annotations

from typing import NamedTuple


class Story(NamedTuple):
    """Commands of the documentation that are run one after the other, in a directory with the examples and `nyc.yaml`."""

    commands: tuple[str, ...]
    #: What has to be there first, as shell.
    before: str = ""
    #: What stands in the documentation for something that a reader fills in or a test has less time for.
    instead: tuple[tuple[str, str], ...] = ()
    #: Of the last command.
    exits: tuple[int, ...] = (0,)


_JOURNALS = "relay journal generate journals/ --deliveries 2000"
_FIRST_WORD = " | cut -d' ' -f1"
_KEYS = "relay keygen DIR --site NYC"
_ROUTER = ("relay router", "timeout --preserve-status --signal TERM 4 relay router")
_PORTS = ((":7900", ":0"), (":7801", ":0"))

#: Run whenever the tests are.
CHEAP = (
    Story(("relay keygen keys --site NYC --site SFO",)),
    Story(("relay keygen keys --site NYC --site SFO && (umask 077 && openssl rand -hex 32 >keys/token)",)),
    Story(("relay config check FILE", "relay node FILE --print-config"), instead=(("FILE", "examples/nyc.yaml"),)),
    Story(("relay check journals",), _JOURNALS),
    Story(
        ("relay keys add DIR/NYC", "relay keys use DIR/NYC ID", "relay keys remove DIR/NYC OLD"),
        f"{_KEYS}; OLD=$(relay keys list DIR/NYC{_FIRST_WORD})",
        (
            ("relay keys add DIR/NYC", f"ID=$(relay keys add DIR/NYC{_FIRST_WORD})"),
            ("NYC ID", "NYC $ID"),
            ("NYC OLD", "NYC $OLD"),
        ),
    ),
    Story(("relay drill --list",)),
)

#: Run with the long tests.
LONG = (
    Story(("relay bench local-throughput --seconds 2 --json",)),
    Story(("relay bench total-order --seconds 2 --json",)),
    Story((".venv/bin/relay simulate --seeds 0:60",), instead=((".venv/bin/relay", "relay"),)),
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
    Story(("relay drill kill-relay",)),
    Story(("relay drill kill-relay --report out.html",)),
    Story(("relay drill kill-relay --insecure",)),
    Story(("relay audit journals/",), _JOURNALS),
    Story(("relay audit journals/ --json",), _JOURNALS),
    Story(("relay audit journals/ --out audit/",), _JOURNALS),
    Story(("relay audit journals/ --master local[2]",), _JOURNALS),
)

_PEERS = "tests/relay/instruments/bench/test_peers.py::test_a_peer_does_the_work"
_BY_HAND = "tests/docs/test_commands.py::test_by_hand_each_in_a_terminal"

#: The test that runs the same command line, with options of its own where it stands in for a reader.
ELSEWHERE = {
    "make demo": "tests/relay/instruments/test_demo.py::test_killing_the_relay_half_way_loses_nothing",
    'relay pub examples/sfo.yaml --keys keys/SFO "hello, New York"': _BY_HAND,
    "relay node examples/nyc.yaml --name A --keys keys/NYC --publish - --events -": _BY_HAND,
    "relay node examples/sfo.yaml --name D --keys keys/SFO --publish - --events -": _BY_HAND,
    "relay status": _BY_HAND,
    "relay audit journals/ --follow --out audit/": (
        "tests/relay/instruments/analytics/follow/test_follow_command.py::test_a_signal_ends_it_with_a_sentence"
    ),
    "relay bench total-order --peer jgroups5 --jgroups-jar jgroups-5.5.7.Final.jar": _PEERS,
    "relay bench all --peer zenoh --peer zeromq --peer nats --report page.html": _PEERS,
    "spark-submit relay/instruments/analytics/job.py journals/ --out audit/": (
        "tests/relay/instruments/analytics/test_job.py::test_spark_submit_says_what_the_command_says_and_writes_the_tables"
    ),
}

_CONTAINERS = "needs Docker with its daemon; tests/deploy/test_compose_up.py starts these containers where there is one"
_CLUSTER = "needs a Kubernetes cluster; tests/deploy/test_kubernetes_apply.py where RELAY_KUBERNETES_IMAGE is set"
_MINUTES = "takes many minutes, and the whole machine"
_SUITE = "is, or contains, the tests that would run it"

#: By the beginning of the command: why no test runs it.
NOT_RUN = {
    "docker ": _CONTAINERS,
    "members() { docker compose ": _CONTAINERS,
    'read -r relay second rest <<< "$(members nyc-b)"': _CONTAINERS,
    "for member in nyc-a nyc-b nyc-c sfo-d sfo-e sfo-f; do\ndocker compose ": _CONTAINERS,
    "for m in d e f; do docker network ": _CONTAINERS,
    "sleep 3": "belongs to the steps with Docker around it",
    "kubectl ": _CLUSTER,
    "kind load ": _CLUSTER,
    "for site in nyc sfo; do for pod in relay-0 relay-1 relay-2; do\nkubectl ": _CLUSTER,
    "RELAY_KUBERNETES_IMAGE=": _CLUSTER,
    "make test": _SUITE,
    ".venv/bin/pytest tests/sitestack/layers/sequencer": _SUITE,
    ".venv/bin/python -m tests.mutants ": _MINUTES,
    "python -m tests.relay.instruments.analytics.promises.planted ": _MINUTES,
    "relay soak": _MINUTES,
    "relay drill wan-flap --repeat 10 --json": _MINUTES,
    "relay drill kill-relay --on compose": _CONTAINERS,
    "relay drill mine.yaml --journal DIR": "is a drill of the reader's own",
    "relay drill hostile-lan": "takes root, for network namespaces",
    "relay drill upgrade --before PYTHON": "needs an earlier release",
    "relay drill upgrade --before before/bin/python": "needs an earlier release",
    'python -m venv before && before/bin/pip install "sitestack==0.1.0"': "needs an earlier release, and a package index",
    'pip install ".[analytics]"': "needs a package index",
    "pip install 'sitestack[peers]'": "needs a package index",
    "mvn dependency:get ": "needs a repository of Java packages",
    "curl -H 'Idempotency-Key: order-4711' ": "needs a node at port 7800; examples/http/post.sh is run instead",
    "curl -N 'http://127.0.0.1:7800/events?from=oldest'": "does not end; examples/http/follow.sh is run instead",
}
