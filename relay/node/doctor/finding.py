"""Finding of the doctor: subject, observation and advice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. Without `advice`, the check passed."""

    #: Configuration key, or another subject.
    about: str
    what: str
    #: Action, as a sentence; empty if none is needed.
    advice: str = ""

    @property
    def is_well(self) -> bool:
        """Return whether the check passed."""
        return not self.advice

    def __str__(self) -> str:
        return f"{self.about}: {self.what}" + (f" {self.advice}" if self.advice else "")
