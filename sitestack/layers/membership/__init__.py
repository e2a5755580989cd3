"""Membership (GMS): join, leave, exclusion of dead members, and the agreed installation of views."""

from __future__ import annotations

from sitestack.layers.membership.config import MembershipConfig
from sitestack.layers.membership.layer import Membership, MembershipStatistics

__all__ = ["Membership", "MembershipConfig", "MembershipStatistics"]
