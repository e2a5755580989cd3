"""The mutants of the turn loop (two of its steps change places, decision 11), and of when a turn runs and acknowledges."""

from __future__ import annotations

from itertools import pairwise

from tests.mutants.mutant import Edit, Mutant

TURN_LOOP = "sitestack/stack/turn.py"
UNICAST = "sitestack/layers/unicast/layer.py"
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
    Mutant(
        "TURN-budget",
        "a flood is taken in all at once, and what is due waits for it",
        (Edit(TURN_LOOP, "            if frames >= TURN_FRAMES_MAX or is_late(now):\n                return\n", ""),),
        ("tests/sitestack/stack/test_turn.py::test_a_flood_waits_while_the_turn_does_what_is_due",),
    ),
    Mutant(
        "TURN-small-frames",
        "a datagram may be all small frames, each of which costs a thousand times as much as its bytes",
        (Edit("sitestack/wire/codec.py", "min(FRAMES_MAX, SMALL_FRAMES_MAX + size // BYTES_PER_FRAME)", "4_096"),),
        ("tests/sitestack/wire/test_codec.py::test_small_frames_are_few_so_that_every_byte_causes_bounded_work",),
    ),
    Mutant(
        "ACK-view-change",
        "acknowledgements wait during a view change too, so a leaver reports what has arrived",
        (Edit(UNICAST, "isinstance(event, Blocked | Left)", "isinstance(event, Left)"),),
        ("tests/simulation/test_last_unicasts.py::test_what_was_delivered_just_before_its_sender_left_is_not_reported",),
    ),
    Mutant(
        "DRIVER-stream",
        "each message of a stream that finds the channel idle for a moment is a turn of its own",
        (Edit("sitestack/channel/driver.py", "STREAM_TURNS = 16", "STREAM_TURNS = 0"),),
        ("tests/sitestack/channel/test_driver.py::test_a_stream_takes_as_few_turns_as_bursts",),
    ),
)
