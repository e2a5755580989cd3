from __future__ import annotations

from sitestack.layers.sequencer.layer import Forward, Sequenced, Sequencer, SequencerConfig, SequencerState

__all__ = ["Forward", "Sequenced", "Sequencer", "SequencerConfig", "SequencerState"]
