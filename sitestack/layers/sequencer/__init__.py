"""Sequencer: one order for all multicasts, made by the coordinator (JGroups' design SEQUENCER)."""

from __future__ import annotations

from sitestack.layers.sequencer.config import SequencerConfig
from sitestack.layers.sequencer.headers import Forward, Sequenced, SequencerState
from sitestack.layers.sequencer.layer import Sequencer

__all__ = ["Forward", "Sequenced", "Sequencer", "SequencerConfig", "SequencerState"]
