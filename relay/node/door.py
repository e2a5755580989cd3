"""How a place does where callers come in: the status socket, or HTTP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Door:
    """Counts whom it could not let in, and says why."""

    #: Why the last caller was not let in; empty when he was.
    trouble: str = ""
    #: Callers that were not, and attempts to let one in that failed.
    refused: int = 0

    def admit(self) -> None:
        """A caller was let in."""
        self.trouble = ""

    def refuse(self, why: str) -> None:
        """A caller was not."""
        self.trouble = why
        self.refused += 1

    def fail(self, error: OSError) -> None:
        """The system let nobody in, for want of descriptors for instance."""
        self.refuse(error.strerror or str(error))
