"""Table of the mutants: for each trap the product without its fix, and the stories that must fail.

A mutant takes one fix away. Where either of two fixes is enough to keep the promise, the mutant takes both away. Where the
design has no such place any more, the mutant plants the bug that the trap describes. Each snippet stands exactly once in its
file (checked by `test_table.py`).
"""

from __future__ import annotations

from tests.mutants.lane_mutants import LANES
from tests.mutants.relay_mutants import RELAY
from tests.mutants.security_mutants import SECURITY
from tests.mutants.site_mutants import SITE
from tests.mutants.state_mutants import STATE

#: Without these fixes JGroups' designs, taken by the letter, lose, repeat or misorder messages; the rest came to light later.
LISTED = ("R1", "R2", "R5", "R6", "R7", "R9", "R12", "S2", "S3", "S5", "S6", "S7", "U1", "U3", "U4", "U6", "A3")

MUTANTS = (*SITE, *STATE, *RELAY, *SECURITY, *LANES)
