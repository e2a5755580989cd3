"""Failure detection: heartbeats to all, and a question to a member that falls silent before it is reported."""

from __future__ import annotations

from sitestack.layers.failure_detection.config import FailureDetectionConfig
from sitestack.layers.failure_detection.layer import FailureDetection, FailureDetectionStatistics

__all__ = ["FailureDetection", "FailureDetectionConfig", "FailureDetectionStatistics"]
