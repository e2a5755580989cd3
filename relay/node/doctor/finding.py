"""A finding of the doctor: what was looked at, what was seen, and what to do when it is not as it should be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence on one thing. Without `advice` all is well."""

    #: The key of the configuration that it is about, or a word.
    about: str
    what: str
    #: What to do, as a sentence; empty when nothing has to be done.
    advice: str = ""

    @property
    def is_well(self) -> bool:
        """Whether nothing has to be done."""
        return not self.advice

    def __str__(self) -> str:
        return f"{self.about}: {self.what}" + (f" {self.advice}" if self.advice else "")
