"""How long a leader of a site waits, and for how many joiners."""

from __future__ import annotations
