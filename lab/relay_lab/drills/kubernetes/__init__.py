"""Drills in a cluster: the shipped manifests, in new namespaces for every run."""

from relay_lab.drills.kubernetes.venue import KubernetesVenue

__all__ = ["KubernetesVenue"]
