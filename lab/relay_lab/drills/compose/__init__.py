"""Drills in containers: the shipped compose file, as a separate project for every run."""
