"""What members of one site may be told differently, as in the middle of a change of their configuration."""

from __future__ import annotations

import random
from dataclasses import replace

from sitestack.config import SiteConfig
from sitestack.layers.short_ids import ShortIdsConfig


def uneven(config: SiteConfig, rng: random.Random) -> SiteConfig:
    """The configuration of one member, with its own heartbeats, patience, reports, windows, batches and datagrams."""
    protocols = config.protocols
    detection = replace(
        protocols.failure_detection,
        heartbeat_interval_s=rng.choice((0.25, 0.5, 1.0)),
        timeout_s=rng.choice((2.0, 2.5, 4.0)),
    )
    stability = replace(
        protocols.stability, report_interval_s=rng.choice((0.1, 0.25, 1.0)), report_bytes=rng.choice((16_384, 512 * 1024))
    )
    nakack = replace(
        protocols.nakack, ask_delay_s=rng.choice((0.005, 0.02, 0.1)), quiet_interval_s=rng.choice((0.05, 0.1, 0.5))
    )
    flow = protocols.flow_control
    window_bytes = rng.choice((flow.window_bytes, flow.window_bytes, 65_536))
    protocols = replace(
        protocols,
        failure_detection=detection,
        stability=stability,
        nakack=nakack,
        flow_control=replace(flow, window_bytes=min(window_bytes, flow.window_bytes)),
        unicast=replace(protocols.unicast, retransmit_interval_s=rng.choice((0.05, 0.1, 0.2))),
        batching=replace(protocols.batching, batch_count_max=rng.choice((1, protocols.batching.batch_count_max))),
    )
    transport = replace(config.transport, datagram_bytes_max=rng.choice((1_400, 9_000, 60_000)))
    return replace(config, protocols=protocols, transport=transport)


def with_short_ids(config: SiteConfig, enabled: bool) -> SiteConfig:
    """The configuration of a member that writes short ids, or does not."""
    return replace(config, protocols=replace(config.protocols, short_ids=ShortIdsConfig(enabled)))
