"""The mutants of the turn loop: two of its steps change places (decision 11)."""

from __future__ import annotations

from itertools import pairwise

from tests.mutants.mutant import Edit, Mutant

TURN_LOOP = "sitestack/stack/turn.py"
STORIES = "tests/simulation/relay/test_turn_steps.py"

#: The lines of the turn's steps, as they stand in the turn loop.
_LINES = (
    "        shell.journal(turn.events)\n",
    "        shell.transmit(turn.datagrams)\n",
    "        shell.act(turn.effects)\n",
    "        shell.hand_over(turn.events)\n",
)
_SWAPS = [Edit(TURN_LOOP, one + other, other + one) for one, other in pairwise(_LINES)]

TURN = (
    Mutant(
        "TURN-journal",
        "datagrams leave before it is journaled what is in them",
        (_SWAPS[0],),
        (f"{STORIES}::test_who_dies_before_the_journal_has_said_nothing_of_what_it_sent",),
    ),
    Mutant(
        "TURN-site-first",
        "other sites hear of a relay that its own site has not heard of",
        (_SWAPS[1],),
        (f"{STORIES}::test_who_commits_a_view_and_dies_before_it_listens_has_told_its_site",),
    ),
    Mutant(
        "TURN-application-last",
        "the application has what the sender will never hear of",
        (_SWAPS[2],),
        (f"{STORIES}::test_who_dies_after_it_wrote_to_the_bridge_has_delivered_what_it_said_it_has",),
    ),
)
