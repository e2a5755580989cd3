from __future__ import annotations

from sitestack.layers.batching.batch_streams import Manner
from sitestack.layers.batching.config import BatchingConfig
from sitestack.layers.batching.layer import SIZE_BYTES, Batching, BatchingStatistics

__all__ = ["SIZE_BYTES", "Batching", "BatchingConfig", "BatchingStatistics", "Manner"]
