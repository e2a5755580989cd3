"""Drills in containers: the shipped compose file, as a project of its own for every run."""

from relay_lab.drills.compose.venue import ComposeVenue

__all__ = ["ComposeVenue"]
