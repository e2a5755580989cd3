"""Drills in a cluster: the shipped manifests, in new namespaces for every run."""
