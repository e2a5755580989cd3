"""Table of the mutants: for each trap the product without its fix, and the stories that must fail.

A mutant takes one fix away. Where either of two fixes is enough to keep the promise, the mutant takes both away. Where the
design has no such place any more, the mutant plants the bug that the trap describes. Each snippet stands exactly once in its
file (checked by `test_table.py`).
"""

from __future__ import annotations

from tests.mutants.bound_mutants import BOUNDS, HISTORY
from tests.mutants.bridge_mutants import BRIDGE
from tests.mutants.credit_mutants import CREDIT
from tests.mutants.handover_mutants import HANDOVER
from tests.mutants.masters_mutants import MASTERS
from tests.mutants.membership_mutants import MEMBERSHIP
from tests.mutants.node_mutants import NODE
from tests.mutants.path_mutants import PATH_MTU
from tests.mutants.relay_mutants import RELAY
from tests.mutants.router_mutants import ROUTERS
from tests.mutants.seal_mutants import SEAL
from tests.mutants.shared_mutants import SHARED_TRANSPORT
from tests.mutants.short_id_mutants import SHORT_IDS
from tests.mutants.site_mutants import PLACES_OF_MEMBERS, SEQUENCER, STRANGERS, UNICAST
from tests.mutants.site_state_mutants import SITE_STATE
from tests.mutants.spill_mutants import SPILL
from tests.mutants.stranger_mutants import STRANGER
from tests.mutants.switch_mutants import SITES_OFFLINE
from tests.mutants.turn_mutants import TURN

#: Without these fixes JGroups' designs, taken by the letter, lose, repeat or misorder messages; the rest came to light later.
LISTED = ("R1", "R2", "R5", "R6", "R7", "R9", "R12", "S2", "S3", "S5", "S6", "S7", "U1", "U3", "U4", "U6", "A3")

MUTANTS = (
    *SEQUENCER,
    *UNICAST,
    *CREDIT,
    *PLACES_OF_MEMBERS,
    *STRANGERS,
    *MEMBERSHIP,
    *PATH_MTU,
    *SHORT_IDS,
    *HANDOVER,
    *SITE_STATE,
    *RELAY,
    *MASTERS,
    *SITES_OFFLINE,
    *SPILL,
    *TURN,
    *BRIDGE,
    *SEAL,
    *SHARED_TRANSPORT,
    *STRANGER,
    *NODE,
    *ROUTERS,
    *BOUNDS,
    *HISTORY,
)
