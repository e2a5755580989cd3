"""Prometheus metrics of a node. A scrape renders one status, so metrics and `relay status` agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from relay.node.status.histogram import cumulative

CONTENT_TYPE = CONTENT_TYPE_LATEST

_STATES = ("joining", "member", "leaving")
_ROLES = ("member", "coord", "relay")
_RETRANSMITTING = ("nakack", "unicast")
_BRIDGE = {
    "received_bytes": "Bytes from other sites.",
    "sent_bytes": "Bytes to other sites.",
    "accepted": "Connections from other sites.",
    "refused": "Connections from other sites rejected above a bound.",
    "unproven": "Connections and calls whose other end has not proved its site.",
    "pushed_out": "Unproved connections replaced by newer ones.",
    "distrusted": "Connections closed because the authority of the other site is no longer trusted.",
    "dialed": "Connections to other sites.",
    "dials_failed": "Failed connections to other sites.",
}
_JOURNAL = {
    "records": "Records in the journal.",
    "written_bytes": "Bytes written to the journal.",
    "lost_records": "Records that could not be written to the journal.",
    "retired": "Segments of the journal that retention has deleted.",
}
_NODE = {
    "lost_event_lines": "Lines of --events that could not be written.",
    "lost_log_lines": "Lost lines of the log.",
    "refused_status": "Rejected connections to the status socket.",
    "refused_http": "Rejected HTTP connections: too many.",
    "stalls": "Stalls of the event loop.",
    "stalled_s": "Seconds of all stalls of the event loop.",
}

_process = ProcessCollector(registry=None)


def exposition(status: Mapping[str, Any]) -> bytes:
    """Return the metrics of a status and of this process, in the text format."""
    return generate_latest(_Families(_node_families(status)))


_ROUTER = {
    "registrations": "Registrations of members, repeated ones too.",
    "queries": "Queries that were answered.",
    "casts": "Datagrams copied to all other members of a site.",
    "sends": "Datagrams for one member.",
    "calls": "Calls of relays to relays of other sites.",
    "spliced": "Accepted calls between two relays.",
    "spliced_bytes": "Bytes forwarded between two relays.",
    "sent_bytes": "Bytes written to members.",
    "lost_datagrams": "Datagrams that did not fit into the queue for a member.",
    "refused_http": "Rejected HTTP connections: too many.",
}


def router_exposition(status: Mapping[str, Any]) -> bytes:
    return generate_latest(_Families(_router_families(status)))


class _Families:
    """Metrics of one status, as prometheus_client collects them."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return chain(self._families, _process.collect())


def _router_families(status: Mapping[str, Any]) -> Iterator[Metric]:
    yield InfoMetricFamily("relay_router", "Router version.", {"version": status["version"], "bind": status["bind"]})
    yield _gauge("router_uptime_seconds", "Since the router was started.", status["uptime_s"])
    yield _gauge("router_problems", "Current failures.", len(status["problems"]))
    members = {site: len(names) for site, names in status["sites"].items()}
    yield _by("router_members", "Members that are registered.", "site", members)
    yield _gauge("router_splices", "Connections between two relays through the router.", len(status["splices"]))
    for name, help_text in _ROUTER.items():
        yield _counter(f"router_{name}", help_text, status["statistics"][name])
    yield _counters("router_refused", "Closed connections and rejected frames, by reason.", "reason", status["refused"])
    yield from _queues(status["queues"])


def _node_families(status: Mapping[str, Any]) -> Iterator[Metric]:
    yield from _node(status)
    yield from _views(status)
    yield from _links(status["links"])
    yield from _messages(status)
    yield from _queues(status["queues"])
    yield from _machinery(status)
    if status["node"]:
        yield from _histograms(status["node"])


def _node(status: Mapping[str, Any]) -> Iterator[Metric]:
    info = {key: str(status[key]) for key in ("site", "name", "version")}
    yield InfoMetricFamily("relay_node", "Site, name and version of the node.", info)
    yield _gauge("uptime_seconds", "Since the node was started.", status["uptime_s"])
    yield _one_of("state", "State of the node.", _STATES, status["state"])
    yield _one_of("role", "Duty of the node in its site.", _ROLES, status["role"])
    yield _gauge(
        "insecure",
        "Whether the node runs without keys: any host that reaches its ports can read and send.",
        not status["secure"],
    )
    found = status["verdict"]["state"]
    states = {state: state == found for state in ("healthy", "degraded", "down")}
    yield _by("verdict", "The verdict of `relay status`, which names the reasons.", "state", states)
    yield _gauge("problems", "Current failures; `relay status` names them.", len(status["problems"]))
    yield _counter("takeovers", "Number of takeovers as coordinator from another member.", status["takeovers"])


def _views(status: Mapping[str, Any]) -> Iterator[Metric]:
    view, everybody = status["view"], status["global_view"]
    yield _counter("views", "Views of the site that were installed.", status["views"])
    yield _gauge("view_members", "Members of the site's view.", len(view["members"]) if view else 0)
    yield _gauge("view_number", "The counter in the view's identity.", view["id"][0] if view else 0)
    members = {site: len(names) for site, names in everybody["sites"].items()} if everybody else {}
    yield _by("global_view_members", "Members of the global view.", "site", members)
    down = {**dict.fromkeys(members, 0), **dict.fromkeys(everybody["down"], 1)} if everybody else {}
    yield _by("site_down", "Whether the site has left the global view after losing its link.", "site", down)


def _links(links: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield the lag of each other site, known to every member."""
    sites = {link["site"]: link for link in links}
    names = {
        "link_up": ("linked", "Whether this node has the link to the site."),
        "site_offline": ("offline", "Whether an operator of this site has switched the other site offline."),
        "slow": ("slow", "Whether the site is below the minimum pace, so senders do not wait for it."),
        "waited_for": ("waited_for", "Whether messages to all sites wait for this site, which lags by the whole budget."),
        "lag_messages": ("behind_messages", "Messages of this site not known to be stable in the other site."),
        "lag_entries": ("behind_entries", "Batches and views of this site not known to be stable in the other site."),
        "lag_bytes": ("behind_bytes", "Their bytes."),
        "lag_seconds": ("behind_s", "The age of the oldest of them."),
        "lost_parts_entries": ("lost_parts_entries", "Batches and views held only for a departed part of the site."),
    }
    for name, (key, help_text) in names.items():
        yield _by(name, help_text, "site", {site: float(link[key]) for site, link in sites.items()})


def _messages(status: Mapping[str, Any]) -> Iterator[Metric]:
    messages = status["messages"]
    yield _counter("messages_sent", "Messages to all sites that this node has published.", messages["sent"])
    here = "Messages to all sites that were delivered here, by site of their sender."
    yield _counters("messages_delivered", here, "site", messages["delivered"])
    yield _counter("messages_other_delivered", "Messages to this site or to this node alone.", messages["others_delivered"])
    yield _counter("messages_gap", "Messages in gaps: they are never delivered here.", messages["gaps"])
    yield _counter("messages_unreachable", "Abandoned messages to one member.", messages["unreachable"])
    yield _counters("dropped", "Dropped input, by reason.", "reason", status["drops"])


def _queues(queues: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    helps = {
        "now": ("queue", "Level of each queue; its name has the unit."),
        "high": ("queue_high", "Highest level of each queue."),
        "max": ("queue_max", "Bound of each queue."),
    }
    for key, (name, help_text) in helps.items():
        yield _by(name, help_text, "queue", {each["queue"]: each[key] for each in queues if each[key] is not None})


def _machinery(status: Mapping[str, Any]) -> Iterator[Metric]:
    statistics = status["statistics"]
    stack, bridge = statistics.get("stack", {}), statistics.get("bridge", {})
    journal, node = status["journal"] or {}, status["node"] or {}
    expires_s = bridge.get("certificate_expires_s")
    if expires_s is not None:
        yield _gauge("certificate_expires_seconds", "Seconds until the site's certificate ends; below 0 after.", expires_s)
    again = {layer: stack[layer]["retransmitted"] for layer in _RETRANSMITTING if layer in stack}
    yield _counters("retransmitted", "Retransmitted frames.", "layer", again)
    for prefix, numbers, names in (("bridge", bridge, _BRIDGE), ("journal", journal, _JOURNAL), ("node", node, _NODE)):
        for name, help_text in names.items():
            if name in numbers:
                yield _counter(f"{prefix}_{name}", help_text, numbers[name])


_DELAYS = {
    "loop_delay": "Delays of the event loop's wake-ups.",
    "delivery": "From a multicast of this member to its delivery here; one of every second.",
}


def _histograms(node: Mapping[str, Any]) -> Iterator[Metric]:
    lag = HistogramMetricFamily("relay_lag_sampled_seconds", "relay_lag_seconds of every second, by site.", labels=["site"])
    for site, each in node["lag"].items():
        lag.add_metric([site], *cumulative(each))
    yield lag
    for name, text in _DELAYS.items():
        yield HistogramMetricFamily(f"relay_{name}_seconds", text, *cumulative(node[name]))


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"relay_{name}", help_text, value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"relay_{name}", help_text, value)


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _labelled(CounterMetricFamily(f"relay_{name}", help_text, labels=[label]), values)


def _by(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _labelled(GaugeMetricFamily(f"relay_{name}", help_text, labels=[label]), values)


def _labelled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]) -> Metric:
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _one_of(name: str, help_text: str, choices: Iterable[str], chosen: str) -> Metric:
    return _by(name, help_text, name, {choice: float(choice == chosen) for choice in choices})
