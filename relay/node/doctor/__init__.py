"""Diagnosis of connections to members, sites and routers, before or while a node runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. Without `advice`, the check passed."""

    #: Configuration key, or another subject.
    about: str
    what: str
    advice: str = ""

    @property
    def is_well(self) -> bool:
        return not self.advice

    def __str__(self) -> str:
        return f"{self.about}: {self.what}" + (f" {self.advice}" if self.advice else "")
