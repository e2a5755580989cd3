"""Drills: real processes under load and faults, and a verdict over their journals."""
