"""The structure of the code is a contract: imports, purity, sizes.

First the rules are applied to the project, then each rule catches a planted violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.structure import policy, rules, shape

PROJECT = Path(__file__).parent.parent

Rule = Callable[[str, str], list[str]]
ProjectRule = Callable[[Mapping[str, str]], list[str]]

PACKAGE_RULES: tuple[Rule, ...] = (rules.check_import_direction, rules.check_doors, rules.check_purity)
GENERAL_RULES: tuple[Rule, ...] = (rules.check_sizes, rules.check_name, rules.check_contents, rules.check_comments)
PROJECT_RULES: tuple[ProjectRule, ...] = (shape.check_circles, shape.check_small_files, shape.check_method_names)


def complaints(roots: tuple[str, ...], rule: Rule) -> list[str]:
    return [complaint for path, text in sources(roots) for complaint in rule(path, text)]


def sources(roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for root in roots:
        for file in sorted((PROJECT / root).rglob("*.py")):
            yield file.relative_to(PROJECT).as_posix(), file.read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", PACKAGE_RULES, ids=lambda rule: rule.__name__)
def test_packages_keep_the_rule(rule: Rule) -> None:
    assert complaints(policy.ROOTS, rule) == []


@pytest.mark.parametrize("rule", GENERAL_RULES, ids=lambda rule: rule.__name__)
def test_all_code_keeps_the_rule(rule: Rule) -> None:
    assert complaints((*policy.ROOTS, *policy.OTHER_ROOTS), rule) == []


@pytest.mark.parametrize("rule", PROJECT_RULES, ids=lambda rule: rule.__name__)
def test_the_product_as_a_whole_keeps_the_rule(rule: ProjectRule) -> None:
    assert rule(dict(sources(policy.ROOTS))) == []


def test_every_size_exception_names_something_that_exists() -> None:
    roots = (*policy.ROOTS, *policy.OTHER_ROOTS)
    existing = {name for path, text in sources(roots) for name in rules.size_names(path, text)}
    assert set(policy.SIZE_EXCEPTIONS) <= existing


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sitestack/stack/stack.py", "import relay.node"),
        ("sitestack/stack/stack.py", "from relay.layer import Relay"),
        ("sitestack/stack/stack.py", "def late():\n    import relay.layer"),
        ("sitestack/model/view.py", "from sitestack.wire.codec import Codec"),
        ("sitestack/config.py", "from sitestack import assembly"),
        ("relay/gateway/gateway.py", "from relay.node.bridge.bridge import Bridge"),
        ("relay/node/daemon.py", "from relay.check import check_directories"),
        ("relay_lab/sim/process.py", "import relay_lab.simulation"),
        ("sitestack/layers/nakack/layer.py", "from sitestack.layers.unicast import Unicast"),
        ("sitestack/layers/nakack/window.py", "from sitestack.layers import unicast"),
        ("sitestack/layers/stability.py", "import sitestack.layers.unicast.sender as other"),
        ("sitestack/layers/nakack/layer.py", "from .. import unicast"),
    ],
)
def test_wrong_import_directions_are_caught(path: str, text: str) -> None:
    assert len(rules.check_import_direction(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("relay/layer/layer.py", "from sitestack.layers.nakack import NakAck"),
        ("sitestack/layers/nakack/__init__.py", "from sitestack.layers.nakack.layer import NakAck"),
        ("sitestack/layers/nakack/layer.py", "from sitestack.model.view import View\nfrom .window import Window"),
        ("sitestack/stack/relayed.py", "import relayed"),
        ("relay/__init__.py", "from relay.node.channel import open_channel"),
    ],
)
def test_right_import_directions_pass(path: str, text: str) -> None:
    assert rules.check_import_direction(path, text) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sitestack/stack/stack.py", "import msgpack"),
        ("sitestack/layers/nakack/layer.py", "from trio import sleep"),
        ("relay/node/config/config_file.py", "import click"),
        ("lab/relay_lab/drills/kill.py", "import yaml"),
        ("relay/layer/layer.py", "def late():\n    from pyspark.sql import DataFrame"),
        ("relay/cli/main.py", "import requests"),
        ("relay/cli/check.py", "from pyspark_relay.audit import run_audit"),
        ("relay/cli/node.py", "import relay_lab.drills"),
        ("relay/gateway/gateway.py", "if TYPE_CHECKING:\n    from relay_lab.sim.process import Process"),
        ("sitestack/channel/open.py", "def late():\n    import relay_lab"),
        ("sitestack/model/view.py", "import pyspark_relay.audit as audit"),
    ],
)
def test_a_library_outside_its_door_is_caught(path: str, text: str) -> None:
    assert len(rules.check_doors(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sitestack/wire/codec.py", "import msgpack"),
        ("sitestack/channel/channel.py", "import trio"),
        ("relay/node/config/config_file.py", "import yaml\nimport random\nfrom sitestack.model.view import View"),
        ("spark/pyspark_relay/audit_command.py", "from pyspark_relay.audit import run_audit"),
    ],
)
def test_a_library_behind_its_door_passes(path: str, text: str) -> None:
    assert rules.check_doors(path, text) == []


IMPURE = [
    "import time",
    "from time import monotonic",
    "import asyncio",
    "import threading",
    "import socket",
    "import logging",
    "import structlog",
    "import trio",
    "from datetime import datetime\nstarted = datetime.now()",
    "import datetime as dt\nstarted = dt.datetime.now(dt.timezone.utc)",
    "import os\nkey = os.urandom(16)",
    "from os import urandom\nkey = urandom(16)",
    "import uuid\nkey = uuid.uuid4()",
    "from dataclasses import field\nfrom uuid import uuid4\nkey = field(default_factory=uuid4)",
    "import random\npicked = random.choice([1, 2])",
    "from random import shuffle\nshuffle([1, 2])",
    "print('here')",
    "text = open('file').read()",
    "async def wait(): ...",
]


@pytest.mark.parametrize("text", IMPURE)
def test_impure_code_is_caught(text: str) -> None:
    """S14: a layer cannot wait, for an acknowledgement or anything else, so arriving frames are always handled."""
    assert len(rules.check_purity("sitestack/layers/nakack/layer.py", text)) == 1
    assert rules.check_purity("sitestack/transport/udp.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "import random\ndef pick(source: random.Random): return source.choice([1, 2])",
        "import random\nsource = random.Random(7)",
        "def shuffle(random): random.shuffle([1, 2])",
        "import uuid\nkey = uuid.UUID(int=7)",
        "from datetime import datetime, timezone\nepoch = datetime.fromtimestamp(0, tz=timezone.utc)",
        "self.open(batch)\nopen = 3\nsize = open + 1",
        "'print(1), time.sleep(2)'",
    ],
)
def test_pure_code_passes(text: str) -> None:
    assert rules.check_purity("sitestack/layers/nakack/layer.py", text) == []


def test_long_files_and_functions_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    long_file = "x = 1\n" * 501
    long_method = "class Layer:\n    def up(self):\n" + "        x = 1\n" * 70 + "    def down(self): ...\n"
    assert rules.check_sizes("relay/a.py", long_file) == ["relay/a.py: 501 lines, at most 500"]
    assert rules.check_sizes("relay/a.py", long_method) == ["relay/a.py:Layer.up: 71 lines, at most 70"]

    monkeypatch.setitem(policy.SIZE_EXCEPTIONS, "relay/a.py:Layer.up", "planted")
    assert rules.check_sizes("relay/a.py", long_method) == []


def test_a_class_of_too_many_methods_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = [f"    def method_{number}(self): ...\n" for number in range(26)]
    accessors = "    @property\n    def name(self): ...\n    @name.setter\n    def name(self, name): ...\n"
    assert rules.check_sizes("relay/a.py", f"class Link:\n{''.join(methods)}") == ["relay/a.py:Link: 26 methods, at most 25"]
    assert rules.check_sizes("relay/a.py", f"class Link:\n{''.join(methods[:24])}{accessors}") == []

    monkeypatch.setitem(policy.SIZE_EXCEPTIONS, "relay/a.py:Link", "planted")
    assert rules.check_sizes("relay/a.py", f"class Link:\n{''.join(methods)}") == []
    assert rules.check_sizes("relay/a.py", "class Link:\n    x = 1\n") != []


@pytest.mark.parametrize(
    "there",
    [
        "from relay.gateway.a import A",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from relay.gateway.a import A",
        "def late():\n    from relay.gateway import a",
        "from .a import A",
    ],
)
def test_files_that_import_each_other_are_caught(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "relay/gateway/__init__.py": "",
        "relay/gateway/a.py": "from relay.gateway.b import B",
        "relay/gateway/b.py": there,
    }
    monkeypatch.setattr(policy, "IMPORT_CIRCLES", {})
    assert len(shape.check_circles(files)) == 1

    monkeypatch.setattr(policy, "IMPORT_CIRCLES", {("relay/gateway/a.py", "relay/gateway/b.py"): "planted"})
    assert shape.check_circles(files) == []
    assert len(shape.check_circles({**files, "relay/gateway/b.py": ""})) == 1, "the entry is needless"


def test_each_of_several_circles_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"relay/a.py": "import relay.b, relay.c", "relay/b.py": "import relay.c", "relay/c.py": "import relay.a"}
    monkeypatch.setattr(policy, "IMPORT_CIRCLES", {})
    assert len(shape.check_circles({"relay/__init__.py": "", **files})) == 1
    assert (
        len(
            shape.check_circles(
                {"relay/__init__.py": "", **files, "relay/d.py": "import relay.e", "relay/e.py": "import relay.d"}
            )
        )
        == 2
    )
    assert shape.check_circles({"relay/__init__.py": "", **files, "relay/c.py": ""}) == []


def test_a_small_file_with_one_importer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"relay/a.py": "from relay.small import X", "relay/small.py": "X = 1\n" * 39}
    monkeypatch.setattr(policy, "SMALL_FILES", {})
    assert [each.split(":")[0] for each in shape.check_small_files(files)] == ["relay/small.py"]
    assert shape.check_small_files({**files, "relay/small.py": "X = 1\n" * 40}) == []
    assert shape.check_small_files({**files, "relay/b.py": "import relay.small"}) == []
    assert shape.check_small_files({"relay/__main__.py": "import relay.small", "relay/b.py": "import relay.__main__"}) == []

    monkeypatch.setattr(policy, "SMALL_FILES", {"relay/small.py": "planted"})
    assert shape.check_small_files(files) == []
    assert len(shape.check_small_files({"relay/a.py": ""})) == 1, "the file is gone"
    assert len(shape.check_small_files({**files, "relay/b.py": "import relay.small"})) == 1, "the entry is needless"


def test_a_method_name_of_many_classes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = [f"class C{number}:\n    def take(self): ...\n    def __len__(self): ...\n" for number in range(13)]
    monkeypatch.setattr(policy, "SHARED_METHODS", {})
    assert shape.check_method_names({"relay/a.py": "".join(classes[:12])}) == []
    found = shape.check_method_names({"relay/a.py": "".join(classes[:6]), "relay/b.py": "".join(classes[6:])})
    assert found == ["take: a method of 13 classes; name it by what it does"]

    monkeypatch.setattr(policy, "SHARED_METHODS", {"take": "planted"})
    assert shape.check_method_names({"relay/a.py": "".join(classes)}) == []
    assert len(shape.check_method_names({"relay/a.py": "".join(classes[:12])})) == 1, "the entry is needless"


def test_a_needless_size_exception_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policy.SIZE_EXCEPTIONS, "relay/a.py", "planted")
    assert rules.check_sizes("relay/a.py", "x = 1\n") != []


@pytest.mark.parametrize("path", ["relay/utils.py", "sitestack/util.py", "relay/utils/text.py", "tests/_utils.py"])
def test_a_utils_module_is_caught(path: str) -> None:
    assert len(rules.check_name(path, "")) == 1


def test_a_name_with_utility_in_it_passes() -> None:
    assert rules.check_name("relay/utilisation.py", "") == []


@pytest.mark.parametrize("text", ['"""What moved away."""\n\nfrom __future__ import annotations\n', '"""Only."""\nimport os\n'])
def test_a_module_that_holds_nothing_is_caught(text: str) -> None:
    assert len(rules.check_contents("sitestack/layers/membership/times.py", text)) == 1


@pytest.mark.parametrize(("path", "text"), [("relay/__init__.py", '"""A package."""\n'), ("relay/a.py", '"""One."""\nX = 1\n')])
def test_a_module_that_holds_something_passes(path: str, text: str) -> None:
    assert rules.check_contents(path, text) == []


@pytest.mark.parametrize(
    "comment",
    ["# TODO later", "# FIXME", "# type: ignore", "# noqa", "# NOQA:", "# type: ignore # why"],
)
def test_unfinished_and_bare_comments_are_caught(comment: str) -> None:
    assert len(rules.check_comments("relay/a.py", f"x = 1  {comment}\n")) == 1


@pytest.mark.parametrize(
    "line",
    ["x = 1  # type: ignore[misc]", "x = 1  # noqa: E501", "x = '# TODO'", "x = 1  # all done"],
)
def test_finished_and_precise_comments_pass(line: str) -> None:
    assert rules.check_comments("relay/a.py", f"{line}\n") == []
