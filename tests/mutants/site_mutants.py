"""The mutants of `sitestack`: its traps, each of which a story tells."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant, trap

#: Remove the second defence behind S1, S2 and S4: a member admits the next number only.
ADMIT_HOLES = Edit(
    "sitestack/layers/sequencer/received_table.py", "        if batch.first == expected:", "        if batch.first >= expected:"
)
#: Remove the second defence behind S3 and S11: a message that does not come back is forwarded again after a while.
NO_RESEND_TIMER = Edit(
    "sitestack/layers/sequencer/layer.py",
    "        return self._progress_at + self._backoff * self._config.resend_interval_s",
    "        return None",
)
#: Remove the second defence behind U3: message identities above the connection.
NO_MESSAGE_ID = Edit(
    "sitestack/layers/unicast/receiver.py",
    "        start = max(seqno, self.last_mid + 1 - self._offset)",
    "        start = seqno",
)

SITE = (
    Mutant(
        "S1",
        "forwards may overtake each other, and everything up to the highest number counts as delivered",
        (
            ADMIT_HOLES,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "Down(Frame(self._me, coordinator, _FORWARD, batch))",
                "Down(Frame(self._me, coordinator, _FORWARD, batch, True))",
            ),
        ),
        ("tests/simulation/test_senders.py::test_a_message_that_overtakes_an_earlier_one_waits_for_it",),
    ),
    Mutant(
        "S2",
        "new messages are forwarded before those that have to be sent again",
        (
            ADMIT_HOLES,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        self._received.retain(view.members)\n        self._table.rewind()",
                "        self._received.retain(view.members)",
            ),
        ),
        ("tests/simulation/test_coordinator_failover.py::test_messages_forwarded_again_precede_new_ones_after_a_failover",),
    ),
    Mutant(
        "S3",
        "a forward that arrives before the view is dropped, and nobody sends it again",
        (
            NO_RESEND_TIMER,
            Edit(
                "sitestack/layers/membership/view_tags.py",
                "        dropped = self._held.hold(frame, view)\n",
                "        dropped = 1\n",
            ),
        ),
        ("tests/simulation/test_coordinator_failover.py::test_a_forward_that_is_faster_than_the_view_waits_for_it",),
    ),
    Mutant(
        "S4",
        "a new coordinator casts what is new and not what its predecessor had left undone",
        (
            ADMIT_HOLES,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        self._received.retain(view.members)\n        self._table.rewind()",
                "        self._received.retain(view.members)\n"
                "        if view.coordinator != self._me:\n            self._table.rewind()",
            ),
        ),
        (
            "tests/simulation/test_coordinator_failover.py::test_a_new_coordinator_sequences_its_old_messages_before_its_newer_ones",
        ),
    ),
    trap(
        "S5",
        "a view is installed without equalising the old one's streams",
        "sitestack/layers/membership/flush.py",
        "            upto, holders = self._cut(part)",
        "            upto, holders = {}, {}",
        "tests/simulation/test_coordinator_failover.py::test_messages_that_one_survivor_delivered_come_first_at_all_survivors",
        "tests/simulation/test_coordinator_failover.py::test_the_example_of_seed_000_a_survivor_gets_its_two_missing_messages_once",
        "tests/simulation/test_coordinator_failover.py::test_a_survivors_delivery_reaches_all_after_origin_and_coordinator_die",
    ),
    trap(
        "S6",
        "what not every survivor holds is given up, though its origin has seen it delivered",
        "sitestack/layers/membership/flush.py",
        "if number > known or (number == known > 0 and member == sender):",
        "if number < upto.get(sender, 1 << 62):",
        "tests/simulation/test_coordinator_failover.py::test_a_message_that_only_its_sender_delivered_reaches_the_other_survivors",
    ),
    trap(
        "S7",
        "who has left is forgotten at once",
        "sitestack/layers/sequencer/received_table.py",
        "        self._left = dict(tombstones[excess:])",
        "        self._left = {}",
        "tests/simulation/test_senders.py::test_a_member_excluded_alive_delivers_no_duplicate_after_its_merge",
    ),
    trap(
        "S9",
        "a joiner expects every origin to begin with number 1",
        "sitestack/layers/sequencer/layer.py",
        "        self._received.restore(state.numbers, learned, behind)",
        "        pass",
        "tests/simulation/test_senders.py::test_a_joiner_begins_where_the_others_are",
    ),
    Mutant(
        "S10",
        "a message of an excluded member is sequenced and delivered",
        (
            Edit(
                "sitestack/layers/membership/view_tags.py",
                '            return [Dropped("old_view")]',
                "            return [Up(frame.pop())]",
            ),
            Edit("sitestack/layers/sequencer/layer.py", "        if frame.source not in self._members:", "        if False:"),
            Edit("sitestack/layers/sequencer/layer.py", " or batch.origin not in self._members:", ":"),
        ),
        ("tests/simulation/test_coordinator_failover.py::test_no_member_sequences_a_message_of_an_excluded_member",),
    ),
    Mutant(
        "S11",
        "messages are forwarded again only when there is another coordinator",
        (
            NO_RESEND_TIMER,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        view = self._view = event.view",
                "        old, view = self._view, event.view\n        self._view = view",
            ),
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        self._received.retain(view.members)\n        self._table.rewind()",
                "        self._received.retain(view.members)\n"
                "        if old is None or old.coordinator != view.coordinator:\n            self._table.rewind()",
            ),
        ),
        ("tests/simulation/test_senders.py::test_messages_that_a_blocked_coordinator_drops_are_forwarded_after_the_view",),
    ),
    trap(
        "S16",
        "who leaves does not wait for what it has sent",
        "sitestack/layers/batching/layer.py",
        "        self._leave_at = now + self._config.stop_timeout_s",
        "        self._leave_at = now",
        "tests/simulation/test_senders.py::test_a_leaving_member_stays_until_its_messages_are_delivered",
    ),
    Mutant(
        "U1",
        "only first messages are looked at for their connection",
        (
            Edit(
                "sitestack/layers/unicast/receiver.py",
                "        if header.conn_id < self.conn_id:",
                '        if header.conn_id < self.conn_id and getattr(header, "first", True):',
            ),
            Edit(
                "sitestack/layers/unicast/receiver.py",
                "        if header.conn_id > self.conn_id:",
                '        if header.conn_id > self.conn_id and getattr(header, "first", True):',
            ),
            Edit(
                "sitestack/layers/unicast/receiver.py",
                "        elif header.mid - header.seqno != self._offset:",
                "        elif False:",
            ),
        ),
        ("tests/simulation/test_resets.py::test_a_new_connection_whose_first_message_is_lost_delivers_all_in_order",),
    ),
    Mutant(
        "U3",
        "a first message of any other connection opens a new window",
        (
            NO_MESSAGE_ID,
            Edit(
                "sitestack/layers/unicast/receiver.py",
                "        if header.conn_id < self.conn_id:",
                '        if header.conn_id < self.conn_id and not getattr(header, "first", True):',
            ),
            Edit(
                "sitestack/layers/unicast/receiver.py",
                "        if header.conn_id > self.conn_id:",
                "        if header.conn_id != self.conn_id:",
            ),
        ),
        ("tests/simulation/test_resets.py::test_a_late_first_message_of_an_old_connection_disturbs_nothing",),
    ),
    trap(
        "U4",
        "a closed connection leaves nothing behind by which its messages are recognised",
        "sitestack/layers/unicast/receiver.py",
        "        start = max(seqno, self.last_mid + 1 - self._offset)",
        "        start = seqno",
        "tests/simulation/test_resets.py::test_a_delivered_unacknowledged_unicast_is_not_delivered_again_after_a_reset",
    ),
    trap(
        "U6",
        "an acknowledgement counts for whatever connection there is",
        "sitestack/layers/unicast/sender.py",
        "        if header.conn_id != self.conn_id or header.window < self._acked_window:",
        "        if False:",
        "tests/simulation/test_resets.py::test_an_acknowledgement_of_the_old_connection_settles_nothing_of_the_new_one",
    ),
    trap(
        "A1",
        "an address is added only if none is known",
        "sitestack/model/address_cache.py",
        "        if known is not None and contact.version <= known.version:",
        "        if known is not None:",
        "tests/simulation/test_identities.py::test_a_moved_member_is_reached_at_its_new_address",
    ),
    trap(
        "A3",
        "a datagram is for whoever is at the address",
        "sitestack/stack/stack.py",
        "        if datagram.dest is not None and datagram.dest != self.address:",
        "        if False:",
        "tests/simulation/test_identities.py::test_messages_for_a_dead_process_are_not_delivered_to_a_new_one_at_its_address",
    ),
    trap(
        "A13",
        "who finds nobody but other joiners founds a site",
        "sitestack/layers/membership/joining.py",
        "            return None\n        return self.find_site()",
        "            return None\n        return None",
        "tests/simulation/test_identities.py::test_when_all_start_at_once_one_founds_the_site_and_the_others_join_it",
    ),
    trap(
        "S23",
        "a leader continues the lineage though another one may do so too",
        "sitestack/layers/membership/leader.py",
        "self._is_disputed or flush.disputes(None if prepare is None else prepare.view)",
        "False",
        "tests/sitestack/layers/membership/test_leader.py::test_a_leader_that_may_have_a_rival_heir_starts_a_new_lineage",
        "tests/simulation/test_found.py::test_stored_plans_break_no_promise",
    ),
    trap(
        "S21",
        "what another part has delivered is not told",
        "sitestack/layers/sequencer/layer.py",
        "        return [*self._gaps(), *self._forward()]",
        "        return self._forward()",
        "tests/simulation/test_missed.py::test_each_part_gets_exact_gaps_for_the_messages_of_the_other",
    ),
    trap(
        "S21-silent",
        "of a member that had sent nothing before the split nothing is missed",
        "sitestack/layers/sequencer/received_table.py",
        "{member: known.pop(member, _FRESH) for member in members}",
        "{member: known.pop(member) for member in members if member in known}",
        "tests/simulation/test_missed.py::test_an_excluded_member_gets_its_gap_right_after_the_merge_view",
    ),
    trap(
        "S22",
        "a coordinator that goes on after a quarantine does not ask for what it dropped meanwhile",
        "sitestack/layers/sequencer/layer.py",
        "*self._forward(), *self._ask_again()]",
        "*self._forward()]",
        "tests/sitestack/layers/sequencer/test_sequencer_state.py::test_a_coordinator_unblocked_in_the_same_view_requests_dropped_forwards",
    ),
    trap(
        "S20",
        "who was excluded goes on in its old view and in one of its own until it is merged",
        "sitestack/layers/membership/quarantine.py",
        "        if self:\n            if event.member in",
        "        if True:\n            if event.member in",
        "tests/simulation/relay/test_quarantine.py::test_a_coordinator_that_wakes_sends_nothing_that_its_own_site_does_not_get",
    ),
    trap(
        "ID-failover",
        "a successor goes on above the members it sees, and gives the id of one that has died",
        "sitestack/layers/short_ids.py",
        "(table.epoch, table.highest), table.ids",
        "(table.epoch, max(table.ids.values())), table.ids",
        "tests/simulation/test_short_ids.py::test_a_successor_gives_a_joiner_an_unused_id_and_retransmits_in_its_own_ids",
    ),
    trap(
        "TURN-journal",
        "datagrams leave before it is journaled what is in them",
        "sitestack/stack/turn.py",
        "        shell.journal(turn.events)\n        shell.transmit(turn.datagrams)\n",
        "        shell.transmit(turn.datagrams)\n        shell.journal(turn.events)\n",
        "tests/simulation/relay/test_turn_steps.py::test_a_member_that_dies_before_the_journal_step_records_and_sends_no_message",
    ),
    trap(
        "TURN-site-first",
        "other sites hear of a relay that its own site has not heard of",
        "sitestack/stack/turn.py",
        "        shell.transmit(turn.datagrams)\n        shell.act(turn.effects)\n",
        "        shell.act(turn.effects)\n        shell.transmit(turn.datagrams)\n",
        "tests/simulation/relay/test_turn_steps.py::test_a_new_relay_that_dies_before_it_listens_has_committed_its_view",
    ),
    trap(
        "TURN-application-last",
        "the application has what the sender will never hear of",
        "sitestack/stack/turn.py",
        "        shell.act(turn.effects)\n        shell.hand_over(turn.events)\n",
        "        shell.hand_over(turn.events)\n        shell.act(turn.effects)\n",
        "tests/simulation/relay/test_turn_steps.py::test_a_receiver_that_dies_after_its_acknowledgement_has_journaled_the_delivery",
    ),
    trap(
        "TURN-small-frames",
        "a datagram may be all small frames, each of which costs a thousand times as much as its bytes",
        "sitestack/wire/codec.py",
        "min(FRAMES_MAX, SMALL_FRAMES_MAX + size // BYTES_PER_FRAME)",
        "4_096",
        "tests/sitestack/wire/test_codec.py::test_small_frames_are_few_so_that_every_byte_causes_bounded_work",
    ),
    trap(
        "F51-requests",
        "a receiver requests lost messages over a dead network until it sends something itself",
        "sitestack/layers/unicast/layer.py",
        "            if receiver.vain_since is not None:\n",
        "            if False:\n",
        "tests/sitestack/layers/unicast/test_unicast_bounds.py"
        "::test_a_receiver_whose_requests_are_in_vain_tries_the_next_address_of_the_sender",
    ),
    trap(
        "F51-answers",
        "two members on a dead network change to the living one in turns",
        "sitestack/layers/path_mtu.py",
        ", everywhere=True",
        "",
        "tests/sitestack/layers/path_mtu/test_path_mtu.py::test_a_probe_is_answered_with_its_size_at_all_addresses",
    ),
    trap(
        "F51-lost",
        "a member requests lost multicasts over a dead network, and nobody notices",
        "sitestack/layers/nakack/layer.py",
        "[Down(PathDoubt(holder, True))] if in_vain else []",
        "[]",
        "tests/sitestack/layers/nakack/test_nakack.py"
        "::test_a_member_whose_requests_are_in_vain_doubts_the_path_to_their_holder",
    ),
    trap(
        "F51-twice",
        "two layers that notice a dead address at once return to it",
        "sitestack/layers/resolver.py",
        "            if event.since > changed_at:\n",
        "            if True:\n",
        "tests/sitestack/layers/test_resolver.py::test_a_failure_of_an_address_that_was_given_up_since_changes_nothing",
    ),
    trap(
        "S9-departed",
        "messages that only departed members of another part delivered are dropped when their origin sends them again",
        "sitestack/layers/sequencer/layer.py",
        "                self._received.meet(self._merged, part.members)\n",
        "                pass\n",
        "tests/sitestack/layers/sequencer/test_sequencer_state.py"
        "::test_messages_that_only_departed_members_delivered_are_delivered_when_their_origin_sends_them_again",
    ),
    trap(
        "S21-evicted",
        "departures while a site is split hide the gap of a member of the other part",
        "sitestack/layers/sequencer/received_table.py",
        "self._left.get(origin) or self._evicted.pop(origin, None)",
        "self._left.get(origin)",
        "tests/simulation/test_missed.py::test_departures_during_a_split_hide_no_gap",
    ),
    trap(
        "S18-targets",
        "unicasts into a hole hold back the multicasts of their sender",
        "sitestack/layers/batching/layer.py",
        "            self._waiting_bytes = event.waiting_bytes - self._waiting_unicast_bytes\n",
        "            self._waiting_bytes = event.waiting_bytes\n",
        "tests/simulation/test_credit.py::test_unicasts_into_a_hole_hold_back_unicasts_to_that_member_only",
    ),
    trap(
        "A15-least-path",
        "a member that gets no datagram of 1,200 bytes stops its site for good",
        "sitestack/layers/path_mtu.py",
        "SIZES = (8_900, 1_400, 1_200, 548)",
        "SIZES = (8_900, 1_400, 1_200)",
        "tests/simulation/test_path_mtu.py::test_a_member_that_large_datagrams_do_not_reach_gets_everything_in_slices",
    ),
    trap(
        "A15-full-wire",
        "probes of all sizes together keep a narrow wire full",
        "sitestack/layers/path_mtu.py",
        "or larger[:1]",
        "+ larger[:2]",
        "tests/sitestack/layers/path_mtu/test_path_mtu.py"
        "::test_a_large_size_is_tried_alone_once_the_sizes_below_it_have_passed",
    ),
    trap(
        "A15-late",
        "late answers are dropped, so that a full path is searched as often as ever",
        "sitestack/layers/path_mtu.py",
        "if search is None or search.number",
        "if search is None or search.due is None or search.number",
        "tests/sitestack/layers/path_mtu/test_path_mtu.py::test_a_late_answer_continues_a_search_and_lifts_its_limit",
    ),
    trap(
        "U4-asleep",
        "after a pause of minutes a unicast is sent again, which its receiver may have forgotten",
        "sitestack/layers/unicast/sender.py",
        "        is_late = self.is_hopeless(now)\n",
        "        is_late = False\n",
        "tests/sitestack/layers/unicast/test_unicast_bounds.py::test_control_frames_after_a_long_pause_revive_no_sender",
    ),
    trap(
        "U4-clock",
        "the stack's clock does not count the time for which its machine was suspended",
        "sitestack/transport/clock.py",
        "            self.slept_s = slept_s\n",
        "            pass\n",
        "tests/sitestack/channel/test_driver.py::test_after_a_suspension_an_old_unicast_is_given_up_and_not_sent_again",
    ),
    trap(
        "S20-woken",
        "a coordinator that wakes from a pause orders alone what its application sends",
        "sitestack/layers/failure_detection.py",
        "                effects.append(Up(Stalled()))\n",
        "                pass\n",
        "tests/simulation/relay/test_quarantine.py::test_a_coordinator_that_wakes_orders_nothing_before_it_knows_that_it_is_a_member",
    ),
    trap(
        "S11-overtaken",
        "after a merge a forward from before it is a hole to one part and the next batch to another",
        "sitestack/layers/sequencer/layer.py",
        "        if batch.first > numbers[batch.scope]:\n",
        "        if False:\n",
        "tests/sitestack/layers/sequencer/test_sequencer_state.py"
        "::test_a_forward_from_before_a_merge_changes_the_place_of_a_batch_at_no_part",
    ),
    trap(
        "S11-third",
        "a third part does not learn that the parts of an origin expect different numbers of it",
        "sitestack/layers/sequencer/layer.py",
        "lowest = state.numbers | state.behind if",
        "lowest = state.numbers if",
        "tests/sitestack/layers/sequencer/test_sequencer_state.py"
        "::test_a_forward_from_before_a_merge_changes_the_place_of_a_batch_at_no_part",
    ),
    trap(
        "S11-behind",
        "a coordinator forgets that the part of an origin expects less of it",
        "sitestack/layers/sequencer/received_table.py",
        "if self._members.get(each, low) != low",
        "if False",
        "tests/sitestack/layers/sequencer/test_sequencer_state.py"
        "::test_a_forward_from_before_a_merge_changes_the_place_of_a_batch_at_no_part",
    ),
    trap(
        "M7-again",
        "what comes again after the state of another part stays in the inbox of a joiner, which applies it twice",
        "sitestack/channel/receiving/state_handover.py",
        "(event.site, event.origins) if event.at_join else ()",
        "(event.site, {})",
        "tests/sitestack/channel/receiving/test_receive_end.py"
        "::test_messages_that_come_again_after_the_state_are_taken_out_with_their_keys",
    ),
)
