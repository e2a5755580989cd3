"""The mutants of a state that crosses between sites (decision 25): something is shown twice, or never, or all begins anew."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

STORIES = "tests/simulation/relay/test_site_state.py"
EXCHANGE = "tests/relay/site_state/test_exchange.py"
SIDES = "tests/relay/site_state/test_taker_and_giver.py"

SITE_STATE = (
    Mutant(
        "STATE-sift",
        "what waits in the inbox is shown although it is in the state",
        (
            Edit(
                "sitestack/channel/receiving/inbox.py",
                "        self.leave_out(contains)\n        told",
                "        told",
            ),
        ),
        (f"{STORIES}::test_a_late_site_gets_the_state_while_the_other_writes",),
    ),
    Mutant(
        "STATE-later",
        "what comes later is delivered although it is in the state",
        (Edit("relay/site_state/exchange.py", "            raise_to(remote.inherited, ", "            raise_to({}, "),),
        (f"{STORIES}::test_what_a_state_contains_and_comes_later_is_not_shown",),
    ),
    Mutant(
        "STATE-note",
        "a joiner is not told that the state which it gets goes back to another site's",
        (
            Edit(
                "sitestack/channel/receiving/state_handover.py",
                "StateGiven(mark.at, mine, self._contains)",
                "StateGiven(mark.at, mine)",
            ),
        ),
        (f"{STORIES}::test_a_joiner_of_the_late_site_gets_what_its_first_member_fetched_and_nothing_twice",),
    ),
    Mutant(
        "STATE-floor",
        "a snapshot is taken although it lacks what was lost here meanwhile",
        (
            Edit(
                "relay/site_state/taker.py",
                "        if missing and self._unmet <= NEWER_MAX:",
                "        if missing and self._unmet < 0:",
            ),
        ),
        (
            f"{STORIES}::test_a_gap_that_comes_during_the_transfer_makes_it_take_a_newer_state",
            f"{SIDES}::test_a_gap_during_the_transfer_asks_for_a_newer_snapshot_and_in_the_end_is_told",
        ),
    ),
    Mutant(
        "STATE-begun",
        "what was before a member's first view need not be in the state",
        (Edit("relay/layer/layer.py", "            self.site_state.begin()\n", "            pass\n"),),
        (f"{EXCHANGE}::test_what_was_before_the_first_view_of_a_member_has_to_be_in_its_state",),
    ),
    Mutant(
        "STATE-own",
        "a state is shown before the own stream has come to what it contains of it",
        (
            Edit(
                "relay/site_state/exchange.py",
                "origin, n in own.items() if view.rank(origin) >= 0",
                "origin, n in own.items() if n < 0",
            ),
        ),
        (f"{EXCHANGE}::test_a_state_waits_until_the_own_stream_has_come_to_what_it_contains",),
    ),
    Mutant(
        "STATE-resume",
        "with each silence the transfer begins anew",
        (Edit("relay/site_state/taker.py", "SILENT_S = 30.0", "SILENT_S = 1.0"),),
        (f"{STORIES}::test_a_bridge_that_is_cut_for_a_while_costs_nothing",),
    ),
    Mutant(
        "STATE-again",
        "a lost piece is not asked for again",
        (
            Edit(
                "relay/site_state/taker.py",
                "self._question(arriving.number, offset, {}) for offset in late",
                "self._question(arriving.number, offset, {}) for offset in late[:0]",
            ),
        ),
        (f"{STORIES}::test_both_relays_die",),
    ),
    Mutant(
        "STATE-rank",
        "the relay provides, and its death costs the snapshot",
        (Edit("relay/site_state/taker.py", "(*members[1:], *members[:1])", "members"),),
        (f"{SIDES}::test_the_second_in_rank_is_asked_first_and_the_relay_last",),
    ),
    Mutant(
        "STATE-both",
        "two sites that wait for each other wait until they give up",
        (Edit("relay/site_state/taker.py", "self._site in answer.waits_for and", "False and"),),
        (f"{STORIES}::test_sites_that_wait_for_each_other_begin_with_what_they_have",),
    ),
    Mutant(
        "STATE-withdraw",
        "a snapshot is given that contains more than was said of it",
        (Edit("relay/site_state/exchange.py", "        self.giver.withdraw()\n", ""),),
        (f"{EXCHANGE}::test_what_is_not_given_yet_is_withdrawn_when_another_state_is_fetched",),
    ),
)
