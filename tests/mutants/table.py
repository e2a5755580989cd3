"""The mutants: for each trap what the product would be without its fix, and the stories that must notice.

Where one fix alone can be taken away, the mutant takes that one. Where two walls stand behind each other, it takes both, since
either of them is enough to keep the promise. Where the design has no such place any more, it plants the bug that the trap
describes. Each snippet stands exactly once in its file (a test in this folder sees to it).
"""

from __future__ import annotations

from tests.mutants.relay_mutants import RELAY
from tests.mutants.site_mutants import PLACES_OF_MEMBERS, SEQUENCER, UNICAST

MUTANTS = (*SEQUENCER, *UNICAST, *PLACES_OF_MEMBERS, *RELAY)
