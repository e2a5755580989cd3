"""Drills in containers: the shipped compose file, as a separate project for every run."""

from relay_lab.drills.compose.venue import ComposeVenue

__all__ = ["ComposeVenue"]
