"""The mutants of several relays in a site (REL-35)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MASTERS_STORIES = "tests/simulation/relay/test_masters.py"
INJECTOR = "tests/relay/gateway/test_injector.py"
FIRST = "tests/relay/gateway/test_first_entry.py"
SHARES = "tests/relay/replica/test_shares.py"

MASTERS = (
    Mutant(
        "REL-35-share",
        "each relay carries the messages of all origins",
        (Edit("relay/gateway/sender.py", "return self._share.covers(batch.origin) and not", "return not"),),
        (f"{MASTERS_STORIES}::test_each_relay_carries_its_share_of_the_origins_and_every_multicast_goes_once",),
    ),
    Mutant(
        "REL-35-deal",
        "after each death all shares are dealt anew, by rank",
        (
            Edit(
                "relay/replica/shares.py",
                "    kept = [master for master in masters[:count] if master in members]",
                "    kept: list[Address] = []",
            ),
        ),
        (
            f"{SHARES}::test_a_death_moves_the_share_of_the_dead_one_only_and_to_a_member_that_has_none",
            f"{MASTERS_STORIES}::test_a_death_moves_the_share_of_the_dead_one_to_the_next_in_line_and_leaves_the_other_link_alone",
        ),
    ),
    Mutant(
        "REL-35-G5",
        "a view goes over a link although last words are on their way over another one",
        (
            Edit(
                "relay/gateway/view_order.py",
                "        if not self._holds or self._members is None or",
                "        if True or self._members is None or",
            ),
        ),
        (f"{MASTERS_STORIES}::test_the_last_words_over_one_link_come_before_the_view_over_the_other_one",),
    ),
    Mutant(
        "REL-35-stranger",
        "the words of a newcomer pass the view that knows it",
        (
            Edit(
                "relay/gateway/view_order.py",
                "        return bool(self._passed) and (self._members is None or origin not in self._members)",
                "        return False",
            ),
        ),
        (f"{MASTERS_STORIES}::test_a_newcomers_first_words_come_after_the_view_that_takes_another_away",),
    ),
    Mutant(
        "REL-35-again",
        "a link begins without the view that the other site knows, and shares and views wait for each other",
        (
            Edit(
                "relay/gateway/view_order.py",
                "        if found is not None:\n            self.gone(found)\n        return found",
                "        return None",
            ),
        ),
        (f"{MASTERS_STORIES}::test_a_site_that_was_away_comes_back_by_the_first_share",),
    ),
    Mutant(
        "REL-35-bring",
        "the coordinator passes on whatever a master brings, with holes and twice",
        (
            Edit(
                "relay/gateway/injector.py",
                "        if through.number != self._reached.get(through.master, 0) + 1:",
                "        if False:",
            ),
        ),
        (f"{INJECTOR}::test_the_coordinator_passes_on_the_next_entry_of_each_master_and_no_other",),
    ),
    Mutant(
        "REL-35-first",
        "who has just joined hears who the relays are after what the coordinator casts again",
        (Edit("relay/gateway/coordination.py", "self._injector.lead(Masters(", "self._injector.cast(Masters("),),
        (f"{FIRST}::test_a_joiner_admits_nothing_that_the_others_refuse_of_a_site_that_is_down",),
    ),
    Mutant(
        "REL-35-brought",
        "what other masters have brought is cast before who they are",
        (
            Edit(
                "relay/gateway/injector.py",
                "        effects = self._send(now) if self._to is not None else []",
                "        effects = self._send(now) if self._to is not None else []\n"
                "        effects += [Down(frame) for frame in self._brought]\n"
                "        self._brought.clear()",
            ),
        ),
        (f"{FIRST}::test_masters_come_before_what_waits_and_before_what_others_brought",),
    ),
    Mutant(
        "REL-35-unicast",
        "unicasts go by way of the coordinator, which may have no link",
        (
            Edit(
                "relay/replica/state.py",
                "        return self.masters[0] if self.masters and self.masters[0] in view.members else view.coordinator",
                "        return view.coordinator",
            ),
        ),
        (f"{MASTERS_STORIES}::test_sites_with_different_numbers_use_the_smaller_one",),
    ),
)
