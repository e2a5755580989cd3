"""Sequencer: one order for all multicasts, made by the coordinator (seeds 000 and 002)."""

from __future__ import annotations

from sitestack.layers.sequencer.layer import Forward, Sequenced, Sequencer, SequencerConfig, SequencerState

__all__ = ["Forward", "Sequenced", "Sequencer", "SequencerConfig", "SequencerState"]
