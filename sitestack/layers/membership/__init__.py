"""Membership (GMS): join, leave, exclusion of dead members, and the agreed installation of views."""

from __future__ import annotations

from sitestack.layers.membership.layer import Membership, MembershipConfig, MembershipStatistics

__all__ = ["Membership", "MembershipConfig", "MembershipStatistics"]
