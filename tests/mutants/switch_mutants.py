"""The mutants of sites that are taken offline (decision 29), and of peers that change."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

SWITCHES = "tests/simulation/relay/test_switches.py"
PARTS = "tests/relay/replica/test_switches.py"
PEERS = "tests/simulation/relay/test_changed_peers.py"

SITES_OFFLINE = (
    Mutant(
        "PEERS-tell",
        "the coordinator is not told of a site that another member has as a peer now",
        (
            Edit(
                "relay/gateway/retention.py",
                "        return [Down(Frame(self._me, view.coordinator, (Configured(self._peers),)))]",
                "        return []",
            ),
        ),
        (f"{PEERS}::test_a_site_that_is_added_is_called_and_held_for_from_then_on",),
    ),
    Mutant(
        "PEERS-call",
        "the addresses of the beginning are called for ever",
        (Edit("relay/gateway/peering.py", "        self._dialer.change(now)\n", ""),),
        (
            f"{PEERS}::test_a_site_that_is_added_is_called_and_held_for_from_then_on",
            f"{PEERS}::test_an_address_that_changes_is_called_the_next_time_and_the_link_stays",
        ),
    ),
    Mutant(
        "OFF-join",
        "a joiner is not told which sites are offline",
        (
            Edit(
                "relay/replica/state.py",
                "        return with_switches(state, self.switches.give())",
                "        return with_switches(state, ())",
            ),
        ),
        (f"{SWITCHES}::test_who_joins_meanwhile_knows_it_when_all_others_are_gone",),
    ),
    Mutant(
        "OFF-hold",
        "what others have stays, for the site that is offline",
        (
            Edit(
                "relay/replica/state.py",
                "        pins = [self.pinning(site) for site in self.sites if site not in self.switches.offline]",
                "        pins = [self.pinning(site) for site in self.sites]",
            ),
        ),
        (f"{SWITCHES}::test_the_others_get_everything_and_hold_nothing_for_it",),
    ),
    Mutant(
        "OFF-wait",
        "the configuration has senders wait for a site that is offline",
        (
            Edit(
                "relay/replica/pace.py",
                '        return self._when_down.get(site) == "wait" and site not in self._state.switches.offline',
                '        return self._when_down.get(site) == "wait"',
            ),
        ),
        (f"{SWITCHES}::test_nobody_waits_for_it_though_the_configuration_says_so",),
    ),
    Mutant(
        "OFF-late",
        "what another relay still brings is admitted",
        (
            Edit(
                "relay/replica/replica.py",
                "        if self.state.switches.offline and self._is_of_offline(entry, batch):",
                "        if not self.state.switches.offline and self._is_of_offline(entry, batch):",
            ),
        ),
        (
            f"{SWITCHES}::test_with_several_relays_what_one_of_them_still_brings_is_refused_and_comes_later",
            f"{PARTS}::test_whatever_was_on_its_way_when_a_site_was_taken_offline_is_refused",
        ),
    ),
    Mutant(
        "OFF-answer",
        "a relay of a site that is offline is answered",
        (
            Edit(
                "relay/gateway/fence.py",
                "        if hello.site in self._state.switches.offline:",
                "        if hello.site in ():",
            ),
        ),
        (f"{SWITCHES}::test_what_a_site_misses_while_it_is_offline_is_one_gap_and_nothing_else_is_lost",),
    ),
    Mutant(
        "OFF-merge",
        "after a merge nobody knows what the parts were told",
        (
            Edit(
                "relay/replica/merge.py",
                "    return with_switches(merged, merge_switches(switches_of(one), switches_of(other)))",
                "    return with_switches(merged, merge_switches((), ()))",
            ),
        ),
        (f"{PARTS}::test_what_one_part_of_a_split_site_has_taken_offline_is_offline_after_the_merge",),
    ),
    Mutant(
        "OFF-state",
        "a STATE that comes in one piece with HELLO is answered before it is known to whom",
        (
            Edit(
                "relay/gateway/session.py",
                "            self._sender.restrict(self.share, (frame.site, frame.lineage))\n",
                "",
            ),
            Edit(
                "relay/gateway/session.py",
                "        self.accepted = True\n",
                "        self.accepted = True\n"
                "        self._sender.restrict(self.share, (self.peer.site, self.peer.lineage))\n",
            ),
        ),
        (
            "tests/relay/gateway/test_session.py::test_a_state_that_comes_in_one_piece_with_hello_is_answered_like_one_that_comes_later",
        ),
    ),
)
