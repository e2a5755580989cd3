"""Sequencer: one order for all multicasts, made by the coordinator (JGroups' design SEQUENCER)."""

from __future__ import annotations

from sitestack.layers.sequencer.layer import Forward, Sequenced, Sequencer, SequencerConfig, SequencerState

__all__ = ["Forward", "Sequenced", "Sequencer", "SequencerConfig", "SequencerState"]
