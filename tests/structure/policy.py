"""Exceptions of the structure rules. A new entry is a reviewed change with a reason."""

from __future__ import annotations

#: Our packages; everything else that is imported is the standard library or needs a door (below).
PACKAGES = ("sitestack", "relay", "relay_lab", "pyspark_relay")

#: Where each package is in the repository.
ROOTS = ("sitestack", "relay", "lab/relay_lab", "spark/pyspark_relay")

#: Where the sizes and the comment marks are looked at, besides the packages.
OTHER_ROOTS = ("tests",)

#: The rooms, from the ground up. A room imports only from floors below its own; what shares a floor does not know each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("sitestack/model", "sitestack/log.py"),
    ("sitestack/seal",),
    ("sitestack/wire", "sitestack/journal", "sitestack/calls"),
    ("sitestack/stack", "sitestack/promises", "sitestack/structures"),
    ("sitestack/layers",),
    ("sitestack/config.py",),
    ("sitestack/assembly.py", "sitestack/transport"),
    ("sitestack/channel",),
    ("sitestack/aio.py", "sitestack/blocking.py"),
    ("relay/events.py", "relay/client"),
    ("relay/replica", "relay/keys"),
    ("relay/gateway", "relay/journal"),
    ("relay/unicast", "relay/site_state"),
    ("relay/layer",),
    ("relay/node",),
    ("relay/structures",),
    ("relay/aio.py", "relay/blocking.py"),
    ("relay/router",),
    ("relay/check.py",),
    ("relay/cli",),
    ("relay_lab/sim", "relay_lab/report"),
    ("relay_lab/simulation",),
    ("relay_lab/drills",),
    ("relay_lab/bench",),
    ("relay_lab/cli",),
    ("pyspark_relay",),
)

#: Modules in here do not know their neighbours: every layer is a separate file or folder.
LAYERS = "sitestack/layers/"

#: Path prefixes of the shell: the only code that may wait, read a clock, open a socket or a file, or log.
SHELL = (
    "sitestack/transport/",
    "sitestack/channel/",
    "sitestack/aio.py",
    "sitestack/blocking.py",
    "sitestack/log.py",
    "relay/aio.py",
    "relay/blocking.py",
    "relay/cli/",
    "relay/client/",
    "relay/journal/",
    "relay/keys/",
    "relay/node/",
    "relay/router/daemon.py",
    "relay/structures/lock.py",
    "relay/structures/map.py",
    "relay/structures/map_replica.py",
    "relay/router/server.py",
    "spark/pyspark_relay/",
    "lab/relay_lab/bench/",
    "lab/relay_lab/cli/",
    "lab/relay_lab/drills/",
    "lab/relay_lab/sim/tasks.py",
    "lab/relay_lab/simulation/application.py",
    "lab/relay_lab/simulation/map_users.py",
)

#: Third-party library -> path prefixes of the modules that may import it.
DOORS: dict[str, tuple[str, ...]] = {
    "click": ("relay/cli/", "lab/relay_lab/cli/", "spark/pyspark_relay/audit_command.py"),
    "cryptography": ("sitestack/seal/", "relay/keys/"),
    "docker": ("lab/relay_lab/drills/",),
    "anyio": ("relay/client/async_client.py",),
    "httpx": ("relay/client/async_client.py",),
    "hypercorn": ("relay/node/http/server.py",),
    "msgpack": ("sitestack/wire/", "relay/journal/", "spark/pyspark_relay/source/bulk.py"),
    "prometheus_client": ("relay/node/http/metrics.py",),
    "py4j": ("spark/pyspark_relay/",),
    "pyarrow": ("spark/pyspark_relay/",),
    "pyspark": ("spark/pyspark_relay/",),
    "rich": ("relay/cli/", "lab/relay_lab/cli/", "spark/pyspark_relay/audit_command.py"),
    "starlette": ("relay/node/http/",),
    "structlog": SHELL,
    "trio": SHELL,
    "typing_extensions": ("sitestack/channel/channel.py",),  # seen by type checkers only
    "yaml": ("relay/node/config/config_file.py",),
    "zenoh": ("lab/relay_lab/bench/peers/eclipse_zenoh.py",),
    "zstandard": ("relay/gateway/compression.py",),
    "zmq": ("lab/relay_lab/bench/peers/zeromq.py",),
}

#: Package of another distribution of ours -> path prefixes of the modules that may import it.
INNER_DOORS: dict[str, tuple[str, ...]] = {
    "pyspark_relay": ("spark/pyspark_relay/",),
    "relay_lab": ("lab/relay_lab/", "spark/pyspark_relay/audit_command.py", "spark/pyspark_relay/report.py"),
}

#: Maximum lines of a file and of a function, and maximum methods of a class.
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
METHODS_MAX = 25

#: A file below this size with one importer belongs into its importer, unless it is listed in `SMALL_FILES`.
SMALL_FILE_LINES = 40

#: Maximum classes that define a method of the same name, unless the name is listed in `SHARED_METHODS`.
CLASSES_OF_A_METHOD_MAX = 12

#: "path", "path:function" or "path:class" -> why it is better large.
SIZE_EXCEPTIONS: dict[str, str] = {}

#: Small file with one importer -> why it is a file. Remove an entry when the file is merged.
SMALL_FILES: dict[str, str] = {}

#: Method name that many classes define -> the contract that asks for it. Remove an entry when few classes are left.
SHARED_METHODS: dict[str, str] = {
    "_send": "to be renamed by what is sent",
    "close": "releases what the object holds, as in the standard library",
    "deadline": "Layer, and parts of layers that expire",
    "down": "Layer",
    "end": "to be renamed by what ends",
    "expire": "Layer, and parts of layers that expire",
    "leave": "the field's term: a member leaves its site, a socket its group",
    "levels": "Layer, and parts that report gauges",
    "receive": "to be renamed by what is received",
    "run": "a task, started with `nursery.start_soon`",
    "send": "transports and channels; others are to be renamed",
    "start": "to be renamed by what starts",
    "statistics": "Layer, and parts that report counters",
    "up": "Layer",
}

#: Groups of files that import each other -> why they still do. Remove an entry when the circle is cut.
IMPORT_CIRCLES: dict[tuple[str, ...], str] = {}

#: Modules that pure code never imports: they wait, read a clock, draw randomness, log or touch the machine.
IMPURE_MODULES = frozenset(
    {
        "asyncio",
        "logging",
        "multiprocessing",
        "secrets",
        "select",
        "selectors",
        "signal",
        "socket",
        "ssl",
        "structlog",
        "subprocess",
        "threading",
        "time",
        "trio",
    }
)

#: Functions of otherwise harmless modules that pure code never uses.
IMPURE_FUNCTIONS = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "io.open",
        "os.urandom",
        "uuid.uuid1",
        "uuid.uuid4",
    }
)

IMPURE_BUILTINS = frozenset({"input", "open", "print"})

#: All that pure code may use of `random`: a generator that is handed in.
RANDOM_ALLOWED = frozenset({"random.Random"})
