"""The dashboard and the alert rules ask for metrics that nodes have, and the runbook has a section for each of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from relay.journal.store import JournalStatistics
from relay.node.bridge.bridge import BridgeStatistics
from relay.node.http.metrics import exposition
from relay.node.status.histogram import Histogram
from relay.node.status.status import Identity, NodeStatus
from relay.node.status.verdict import judge
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.model.level import Level
from tests.relay.node.http.test_http import EVERYBODY, LINK, NODE, VIEW

PROJECT = Path(__file__).parent.parent.parent
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((PROJECT / "deploy/prometheus/alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((PROJECT / "deploy/grafana/relay.json").read_text(encoding="utf-8"))
RUNBOOK = (PROJECT / "docs/how-to/runbook.md").read_text(encoding="utf-8")
METRICS = (PROJECT / "docs/reference/metrics.md").read_text(encoding="utf-8")
#: Suffixes of the samples of a histogram.
OF_HISTOGRAMS = re.compile(r"(?<=_seconds)_(?:bucket|count|sum)$")
METRIC = re.compile(r"\b(?:relay|process)_[a-z_]+\b")


def exported() -> dict[str, dict[str, set[str]]]:
    """Each metric that a node with keys, links and a journal exports, by the name of its samples: labels and their values."""
    status = NodeStatus(Identity("NYC", "A", 42, "1.0", secure=True), started=0.0)
    for item in (VIEW, EVERYBODY):
        status.observe(item)
    layers = {"relay": {"sites": [LINK]}, "drops": {"late": 3, "seal_plain": 1}}
    stack = {**layers, "nakack": {"retransmitted": 9}, "unicast": {"retransmitted": 1}}
    levels = {f"stack.relay.buffer_{each}": Level.of(2, 10, high=5) for each in ("bytes", "entries")}
    statistics = {"stack": stack, "bridge": BridgeStatistics(certificate_expires_s=5.0)}
    plain = status.to_json(statistics, levels, JournalStatistics(), [], 2.0, {**NODE, "lag": {"SFO": Histogram()}})
    plain["verdict"] = judge(plain, ["SFO"])
    plain["statistics"]["bridge"] = {each: getattr(BridgeStatistics(), each) for each in BridgeStatistics.__slots__}
    plain["statistics"]["bridge"]["certificate_expires_s"] = 5.0
    plain["messages"]["delivered"] = {"NYC": 1}
    samples: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(exposition(plain).decode()):
        for sample in family.samples:
            known = samples.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                known.setdefault(label, set()).add(value)
    return samples


EXPORTED = exported()


def expressions() -> Iterator[str]:
    yield from (alert["expr"] for alert in ALERTS)
    yield from (each["expr"] for each in DASHBOARD["annotations"]["list"])
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_and_label_that_is_asked_for_is_exported(expression: str) -> None:
    names = METRIC.findall(expression)
    assert names or expression.startswith("up{")
    assert set(names) <= set(EXPORTED), expression
    for name, selector in re.findall(r"\b(relay_[a-z_]+)\{([^}]*)\}", expression):
        for label, sign, value in re.findall(r"([a-z_]+)(=~?)\"((?:[^\"\\\\]|\\\\.)*)\"", selector):
            pattern = value.replace("\\\\", "\\")
            values = EXPORTED[name].get(label, set())
            found = [each for each in values if (re.fullmatch(pattern, each) if sign == "=~" else each == value)]
            assert found, f"{expression}: no {label} of {name} is {value}"


#: Metrics of a member about another site, and so of a pair of sites.
OF_PAIRS = {
    f"relay_{name}" for name in ("link_up", "site_offline", "site_down", "slow", "waited_for", "global_view_members")
} | {name for name in EXPORTED if name.startswith("relay_lag_")}


#: It only asks whether there is another site to relay to.
IS_NEEDED = "and on (instance, job) relay_site_offline == 0"


@pytest.mark.parametrize(
    "expression",
    sorted({each for each in expressions() if OF_PAIRS.intersection(METRIC.findall(each.replace(IS_NEEDED, "")))}),
)
def test_expressions_about_another_site_are_grouped_by_pair_of_sites(expression: str) -> None:
    assert "by (from, site)" in expression, "with three sites a link of the third would hide a cut"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool is here: the alert rules were not evaluated")
def test_the_alert_rules_fire_when_they_should() -> None:
    ran = subprocess.run(
        ["promtool", "test", "rules", "alerts.test.yaml"],
        cwd=PROJECT / "deploy/prometheus",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_names_its_section_of_the_runbook() -> None:
    headings = {line.removeprefix("### ") for line in RUNBOOK.splitlines() if line.startswith("### ")}
    for alert in ALERTS:
        assert alert["alert"] in headings
        assert alert["annotations"]["runbook"] == f"docs/how-to/runbook.md#{alert['alert'].lower()}"
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert alert["annotations"]["summary"].endswith(".")
    assert {heading for heading in headings if heading.startswith("Relay")} == {alert["alert"] for alert in ALERTS}


def test_the_stall_that_excludes_a_member_follows_from_the_failure_detection() -> None:
    """Its last heartbeat is up to an interval old when it stops."""
    config = FailureDetectionConfig()
    told = f"bove {config.timeout_s + config.verify_timeout_s - config.heartbeat_interval_s:g} s"
    [alert] = [each for each in ALERTS if each["alert"] == "RelayStalls"]
    section = RUNBOOK.partition("### RelayStalls")[2].partition("###")[0]
    assert told in alert["annotations"]["summary"]
    assert told in section


def test_every_metric_is_documented_and_nothing_else() -> None:
    ours = {OF_HISTOGRAMS.sub("", name) for name in EXPORTED if name.startswith("relay_")}
    told = {
        name for line in METRICS.splitlines() if line.startswith("| `relay_") for name in METRIC.findall(line.split("|")[1])
    }
    assert told == ours


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
