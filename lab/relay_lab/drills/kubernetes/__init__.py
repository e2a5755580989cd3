"""Drills in a cluster: the shipped manifests, in namespaces of their own for every run."""

from relay_lab.drills.kubernetes.venue import KubernetesVenue

__all__ = ["KubernetesVenue"]
