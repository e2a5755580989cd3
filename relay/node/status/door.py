"""Door: the health of a socket that accepts callers, the status socket or that of HTTP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Door:
    """Counts refused callers, and says why the last one was refused."""

    #: Why the last caller was refused; empty when the caller was let in.
    trouble: str = ""
    #: Number of refused callers and of failed attempts to accept one.
    refused: int = 0

    def admit(self) -> None:
        """A caller was let in."""
        self.trouble = ""

    def refuse(self, why: str) -> None:
        """A caller was refused, for this reason."""
        self.trouble = why
        self.refused += 1

    def fail(self, error: OSError) -> None:
        """The system could not accept a caller, for want of descriptors for instance."""
        self.refuse(error.strerror or str(error))
