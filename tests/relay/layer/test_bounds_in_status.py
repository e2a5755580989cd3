"""B1: every container has a bound, and its level is in the status of a node.

The test walks all containers in all layers of a node. The table names the level of each, or its
other bound. A new container is not in the table, and the test fails.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from relay.layer import RelayLayer
from relay.node.config.settings import NodeConfig
from relay.replica.config import BufferConfig, SpillSettings
from relay_lab.simulation.containers import containers
from relay_lab.simulation.process import MemoryDisk
from sitestack.assembly import build_stack
from sitestack.model.address import Address
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack

VIEW = "one for each member of the view, or less"
FIXED = "made once, of what is in the source code or the configuration"
TURN = "empty at the end of every turn"
SITES = "one for each configured site, lineage or address of one"
WINDOW = "what flow control lets be on its way in the stream"

#: The level that shows it, which begins with the layer's name; or why none has to.
SHOWN = {
    "batching.targets.lines": "batching.targets",
    "batching.targets.open": "batching.credit_bytes",
    "batching.silent": "batching.credit_bytes",
    "batching.early.frames": "batching.early_frames",
    "batching.early.count_of": "the senders of the early frames",
    "batching.early.bytes_of": "the senders of the early frames",
    "relay.replica.state.buffer.entries": "relay.buffer_bytes",
    "relay.replica.state.buffer.numbers.runs": "relay.buffer_entries",
    "relay.replica.state.buffer.gone.taken": "origins, at most ORIGINS_MAX of them",
    "relay.replica.state.buffer.gone.failed": "origins, at most ORIGINS_MAX of them",
    "relay.replica.state.buffer.spill.disk.segments": "relay.spill_bytes",
    "relay.replica.state.buffer.spill.segments": "relay.spill_bytes",
    "relay.replica.state.produced": "relay.origins",
    "relay.replica.state.inherited": "origins, at most ORIGINS_MAX of them",
    "relay.replica.state.unknown": "of one state, at most ORIGINS_MAX of each site",
    "relay.replica.state.remotes": "relay.lineages",
    "relay.replica.state.switches.offline": SITES,
    "relay.replica.state.switches.switches": SITES,
    "relay.handover.source.tokens": "relay.handovers",
    "relay.site_state.floor": "origins, at most ORIGINS_MAX of each site",
    "relay.site_state.inherited": "as `Remote.inherited`, at most ORIGINS_MAX of each site",
    "relay.site_state.requester.floor": "origins, at most ORIGINS_MAX of each site",
    "relay.site_state.from_above": FIXED,
    "relay.site_state.from_below": FIXED,
    "relay.site_state.requester.tried": SITES,
    "relay.handover.fetch.batches": "relay.fetched_bytes",
    "relay.gateway.injector.cast": "relay.waiting_bytes",
    "relay.gateway.injector.queued": "relay.waiting_bytes",
    "relay.gateway.injector.sizes": "relay.waiting_bytes",
    "relay.gateway.watermarks.unheld": WINDOW,
    "relay.gateway.watermarks.held": VIEW,
    "relay.gateway.watermarks.unstable": WINDOW,
    "relay.gateway.peering.table.connections": "relay.connections",
    "relay.gateway.peering.table.links": "relay.connections",
    "relay.gateway.peering.receiver.reached": "relay.origins",
    "relay.gateway.peering.receiver.history": "a view for each link",
    "relay.gateway.places": SITES,
    "relay.gateway.routed": SITES,
    "relay.gateway.peering.dialer.peers": SITES,
    "relay.gateway.peering.dialer.linked": SITES,
    "relay.gateway.peering.dialer.targets": SITES,
    "relay.gateway.peering.dialer.offline": SITES,
    "relay.gateway.coordination.switching": SITES,
    "relay.gateway.peering.grace.since": SITES,
    "relay.gateway.peering.grace.cast": SITES,
    "relay.gateway.peering.grace.going_down": SITES,
    "relay.gateway.peering.table.going_down": SITES,
    "relay.gateway.peering.receiver.going_down": SITES,
    "relay.gateway.peering.acks.collected": TURN,
    "relay.gateway.peering.fence.peers": SITES,
    "relay.gateway.peering.fence.said": "the fence says at most so many different sentences",
    "relay.gateway.carrier.routes.routes": "relay.routes",
    "relay.gateway.carrier.routes.hops": SITES,
    "relay.unicasts.sender.lines": "relay.pending_bytes",
    "relay.unicasts.receiver.reached": "relay.unicast_senders",
    "relay.unicasts.receiver.owed": TURN,
    "relay.gateway.coordination.least_pace.marks": "relay.lineages",
    "relay.gateway.coordination.absences.after_s": FIXED,
    "relay.gateway.coordination.absences.due": SITES,
    "relay.gateway.coordination.retention.others": "a list per member of the view, at most ADDRESSES_MAX until the next one",
    "relay.gateway.coordination.retention.unwanted": "the sites that are held for, which members name",
    "relay.from_above": FIXED,
    "relay.from_below": FIXED,
    "relay.frames": FIXED,
    "relay.replica.parts": "the parts of one merge",
    "relay.replica.pace.when_down": FIXED,
    "relay.proxies": "relay.origins",
    "state_transfer.holders.standings": VIEW,
    "state_transfer.asked": VIEW,
    "state_transfer.readers": VIEW,
    "state_transfer.pieces": "state_transfer.arrived_bytes",
    "sequencer.table.undelivered": "sequencer.undelivered_bytes",
    "sequencer.table.waiting": "sequencer.undelivered_bytes",
    "sequencer.received.members": VIEW,
    "sequencer.received.left": "sequencer.tombstones",
    "sequencer.received.evicted": "at most EVICTED_MAX, the oldest is dropped; empty after a merge",
    "sequencer.received.behind": VIEW,
    "sequencer.casts": VIEW,
    "sequencer.dropped": VIEW,
    "sequencer.merged": "tables of the other parts, until the merge view",
    "sequencer.received.learned": "origins of `left`",
    "sequencer.missed": "told at the merge view that follows at once: those of `sequencer.tombstones`",
    "flow_control.casts.queue": "flow_control.queued_bytes",
    "flow_control.accounts": "the members, and while blocked others with something in the queue",
    "flow_control.early": "at most EARLY_MAX until the next view",
    "flow_control.waiting_to": "flow_control.queued_bytes",
    "flow_control.due": "of the accounts",
    "membership.leader.changes.suspected": VIEW,
    "membership.leader.changes.refusing": VIEW,
    "membership.leader.changes.lagging": VIEW,
    "membership.reminders.reporters": VIEW,
    "membership.leader.changes.entrance.waiting": "membership.joiners",
    "membership.leader.changes.entrance.known": "membership.joiners",
    "membership.leader.changes.entrance.offered": "membership.joiners",
    "membership.leader.changes.entrance.told.allowed": "at most `joiners_max` names",
    "membership.leader.changes.failed.failed": "membership.failed_changes",
    "membership.joining.silent": "coordinators that the last search has found",
    "membership.merging.apart.failed": "membership.silent_parts",
    "membership.merging.entrusted": "at most `parts_max` coordinators",
    "membership.merging.errand.sources": "at most `parts_max` coordinators",
    "membership.merging.heard_of": "coordinators that the last search has told of",
    "membership.merging.silent": "at most `apart_max` members",
    "membership.merging.told.allowed": "at most `apart_max` coordinators",
    "membership.leader.changes.leavers": VIEW,
    "membership.leader.changes.unaware": VIEW,
    "membership.merging.elsewhere": "coordinators that were heard of lately, of which at most `parts_max` are asked",
    "membership.merging.asked": "at most `parts_max` parts",
    "membership.merging.agreed": "at most `parts_max` parts",
    "membership.tags.held.frames": "membership.held_frames",
    "membership.tags.held.count_of": "the senders of the held frames",
    "membership.tags.held.bytes_of": "the senders of the held frames",
    "membership.handlers": FIXED,
    "short_ids.ids": VIEW,
    "stability.digest": VIEW,
    "stability.stable": VIEW,
    "stability.held": VIEW,
    "stability.reports": VIEW,
    "batching.codec.tables": "at most TABLES_MAX tables, each with the members of a view",
    "batching.codec.schema.converters": FIXED,
    "batching.codec.schema.packers": FIXED,
    "batching.codec.schema.parsers": FIXED,
    "fragment.header_bytes": FIXED,
    "fragment.partials.partials": "fragment.partials",
    "unicast.senders": "as many as are sent to; those that are silent go by time",
    "unicast.lane_readers": VIEW,
    "unicast.owing": "unicast.peers",
    "unicast.receivers": "unicast.peers",
    "state_transfer.holders.unsaid": VIEW,
    "state_transfer.holders.in_part": VIEW,
    "unicast.to_answer": TURN,
    "nakack.streams.windows": VIEW,
    "nakack.gaps.gaps": VIEW,
    "nakack.gaps.holders": VIEW,
    "nakack.answers.bytes_for": VIEW,
    "nakack.answers.given": TURN,
    "nakack.later.frames": "nakack.later_count",
    "nakack.later.count_of": "the senders of the frames of later views",
    "nakack.later.bytes_of": "the senders of the frames of later views",
    "failure_detection.heard": VIEW,
    "failure_detection.checks": VIEW,
    "failure_detection.suspected": VIEW,
    "failure_detection.gone": VIEW,
    "failure_detection.deaf": VIEW,
    "failure_detection.not_here.allowed": "failure_detection.limited",
    "failure_detection.seen.allowed": "failure_detection.limited",
    "discovery.contacts.contacts": "discovery.contacts",
    "discovery.contacts.heard": "discovery.contacts",
    "discovery.contacts.tombstones": "discovery.contacts",
    "discovery.directory.answered.allowed": "discovery.answered",
    "discovery.complaints.allowed": "discovery.complaints",
    "discovery.handlers": FIXED,
    "path_mtu.searches": "path_mtu.searches",
    "path_mtu.limits": "path_mtu.narrow_paths",
    "resolver.contacts.contacts": "resolver.contacts",
    "resolver.contacts.heard": "resolver.contacts",
    "resolver.contacts.tombstones": "resolver.contacts",
    "resolver.failures": "resolver.contacts",
    "resolver.picked": "resolver.contacts",
    "resolver.waiting": "resolver.queued_bytes",
}


@pytest.fixture(scope="module")
def stack() -> Stack:
    config = NodeConfig(site="NYC")
    local = Local("NYC", Address(b"a" * 16), "A", random.Random(0))
    buffer = BufferConfig(spill=SpillSettings())
    relay_layer = RelayLayer(local, replace(config.relay_layer(), buffer=buffer), MemoryDisk())
    return build_stack(local, config, relay_layer=relay_layer, shares_state=True)


def test_every_container_of_every_layer_is_accounted_for(stack: Stack) -> None:
    seen: set[int] = set()
    found = [path for layer in stack.layers for path, _ in containers(layer, layer.name, seen)]
    shared = {f"{layer.name}.stale" for layer in stack.layers}  # one set of the stack: its layers, or fewer
    found = [path for path in found if path not in shared]
    assert len(found) > 80
    assert sorted(found) == sorted(SHOWN)


def test_each_level_that_shows_a_container_is_within_a_bound(stack: Stack) -> None:
    layers = {layer.name for layer in stack.layers}
    levels = stack.levels()
    shown = {name for name in SHOWN.values() if name.split(".")[0] in layers}
    assert len(shown) > 20
    for name in shown:
        bound = levels[name].bound
        assert bound is not None, name
        assert 0 <= levels[name].now <= bound, name
