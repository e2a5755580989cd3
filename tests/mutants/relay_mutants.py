"""The mutants of `relay`: its traps, each of which a story tells."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant, trap

RELAY = (
    trap(
        "R1",
        "what the other site lacks is thrown away instead of replayed",
        "relay/gateway/sender.py",
        "        self._sent, self._sent_view = dict(vector.origins), vector.view",
        "        self._sent, self._sent_view = dict(self._state.produced), vector.view",
        "tests/simulation/relay/test_takeover_stories.py::test_the_next_relay_sends_exactly_the_messages_missing_at_the_other_site",
    ),
    trap(
        "R2",
        "one highest number stands for all origins",
        "relay/gateway/sender.py",
        "    return origins.get(batch.origin, 0) >= batch.last",
        "    return max(origins.values(), default=0) >= batch.last",
        "tests/simulation/relay/test_takeover_stories.py::test_the_next_relay_sends_exactly_the_messages_missing_at_the_other_site",
    ),
    trap(
        "R3",
        "a joiner begins with an empty buffer",
        "relay/replica/state.py",
        "        self.buffer.adopt_entries(state.first, state.entries, state.base_view, now)",
        "        self.buffer.adopt_entries(state.first + len(state.entries), (), state.base_view, now)",
        "tests/simulation/relay/test_takeover_stories.py::test_a_recent_joiner_takes_over_with_all_unacknowledged_messages",
    ),
    trap(
        "R5",
        "a relay acknowledges what it alone has",
        "relay/gateway/watermarks.py",
        "        if self._alone:\n            return [entry]",
        "        if True:\n            return [entry]",
        "tests/simulation/relay/test_takeover_stories.py::test_messages_delivered_only_by_a_dead_receiving_relay_are_retransmitted",
    ),
    Mutant(
        "R6",
        "the older link of a site stays open while the new one replays, and nothing recognises duplicates",
        (
            Edit("relay/gateway/peering.py", "self._close(older, Ending.SUPERSEDED, now)", "[]"),
            Edit(
                "relay/gateway/receiver.py",
                "batch.last)\n        if answer is Admission.NEXT:",
                "batch.last)\n        if answer is not Admission.HOLE:",
            ),
            Edit(
                "relay/replica/replica.py", "        if answer is not Admission.NEXT:", "        if answer is Admission.HOLE:"
            ),
        ),
        (
            "tests/simulation/relay/test_takeover_stories.py::test_late_messages_of_a_dead_relay_are_not_delivered_again_after_the_replay",
        ),
    ),
    trap(
        "R7",
        "a relay without a link forgets what its site sends",
        "relay/layer/layer.py",
        "            if self.state.sites:\n                self.gateway.appended(",
        "            if self.state.sites and (self.gateway.table.links or not self.gateway.active):\n"
        "                self.gateway.appended(",
        "tests/simulation/relay/test_takeover_stories.py::test_messages_sent_without_a_link_or_during_a_replay_queue_behind_it",
    ),
    trap(
        "R8",
        "who succeeds a relay that said farewell begins with an empty buffer",
        "relay/layer/layer.py",
        "        relay, view = self.state.relay, event.view\n",
        (
            "        relay, view = self.state.relay, event.view\n"
            "        if view.id.creator not in view.members:\n"
            "            self.state.buffer.drop_through(self.state.buffer.end - 1)\n"
        ),
        "tests/simulation/relay/test_takeover_stories.py::test_the_successor_relays_messages_sent_after_a_farewell",
    ),
    Mutant(
        "R9",
        "the relay that connected last is believed, whatever its epoch",
        (
            Edit("relay/gateway/fence.py", "        if epoch is not None and hello.epoch < epoch:", "        if False:"),
            Edit("relay/gateway/fence.py", "    return _rank(new) > _rank(old)", "    return True"),
        ),
        ("tests/simulation/relay/test_takeover_stories.py::test_a_relay_that_was_asleep_is_not_listened_to_when_it_wakes",),
    ),
    trap(
        "R11",
        "a relay sends what it alone holds",
        "relay/gateway/watermarks.py",
        "        if self._alone:\n            self.sendable = position",
        "        if True:\n            self.sendable = position",
        "tests/simulation/relay/test_takeover_stories.py::test_a_message_that_only_the_relay_holds_is_not_relayed",
    ),
    Mutant(
        "R12",
        "what came over a bridge is relayed on, and taken from anybody",
        (
            Edit(
                "relay/layer/layer.py",
                "        outcome = self._replica.apply(",
                (
                    "        if frame.batch is not None:\n"
                    "            self.gateway.appended(frame, self.state.append(frame.batch, now), now)\n"
                    "        outcome = self._replica.apply("
                ),
            ),
            Edit("relay/gateway/wire.py", "own = batch.site == peer and ", "own = "),
        ),
        (
            "tests/simulation/relay/test_stream_stories.py::test_each_member_of_three_sites_delivers_each_message_once",
            "tests/simulation/relay/test_takeover_stories.py::test_a_multicast_reaches_every_member_of_both_sites_once_and_never_comes_back",
        ),
    ),
    Mutant(
        "R13",
        "a relayed batch enters the reliable layers with its far sender as the owner of the stream",
        (
            Edit(
                "relay/gateway/injector.py",
                "        self._queued.append(Frame(self._address, None, (header,), batch))",
                "        self._queued.append(Frame(self._address if batch is None else batch.origin, None, (header,), batch))",
            ),
            Edit(
                "sitestack/layers/nakack/layer.py",
                "        own = Frame(self._me, None, frame.headers, frame.batch, False, seqno, self._me)",
                "        own = Frame(frame.source, None, frame.headers, frame.batch, False, seqno, frame.source)",
            ),
        ),
        (
            "tests/simulation/relay/test_takeover_stories.py::test_a_relayed_message_that_is_lost_on_the_last_hop_is_asked_of_the_local_relay",
        ),
    ),
    trap(
        "R14",
        "the relay is a part of who a remote member is",
        "sitestack/model/address.py",
        "        return isinstance(other, bytes) and bytes.__eq__(self, other) and self.site == self._site_beside(other)",
        (
            "        if not isinstance(other, ProxyUUID) or self.relay != other.relay:\n"
            "            return False\n"
            "        return bytes.__eq__(self, other) and self.site == self._site_beside(other)"
        ),
        "tests/simulation/relay/test_takeover_stories.py::test_after_a_takeover_the_sender_is_still_the_same_and_can_be_answered",
    ),
    Mutant(
        "R20",
        "views cross the bridge in a queue of their own",
        (
            Edit(
                "relay/gateway/sender.py",
                "                self._send_view(entry.view)\n",
                "                self.views.append(encode(RemoteView(self._site, entry.view)))\n",
            ),
            Edit(
                "relay/gateway/sender.py",
                "        self.in_flight_bytes = 0\n",
                "        self.in_flight_bytes = 0\n        self.views: deque[bytes] = deque()\n",
            ),
            Edit(
                "relay/gateway/session.py",
                "            for queue in (self._unicasts, self._routed):\n"
                "                if queue.bytes:\n"
                "                    parts += queue.drain(limit // 2)\n",
                "            parts += self._sender.views\n            self._sender.views.clear()\n",
            ),
        ),
        (
            "tests/simulation/relay/test_stream_stories.py::test_a_view_with_a_new_remote_member_precedes_its_first_message",
            "tests/simulation/relay/test_stream_stories.py::test_the_last_message_of_a_member_precedes_the_view_without_it",
        ),
    ),
    trap(
        "R21",
        "nobody is told of what the budget did not hold",
        "relay/gateway/sender.py",
        "        self._ahead.append(encode(RemoteGap(self._site, origin, gone.first, gone.last, reason)))\n",
        "",
        "tests/simulation/relay/test_stream_stories.py::test_messages_beyond_the_budget_become_a_gap_and_the_rest_arrives",
    ),
    trap(
        "R23",
        "a joiner knows nothing of the other sites",
        "relay/layer/layer.py",
        "        self.state.adopt(replace(state, first=state.first + dropped, entries=entries), self._now)",
        "        pass",
        "tests/simulation/relay/test_stream_stories.py::test_a_joiner_begins_a_remote_stream_at_the_next_message",
    ),
    Mutant(
        "R28",
        "messages for the own site are numbered with all others",
        (
            Edit(
                "sitestack/layers/batching/layer.py",
                "        opened.next_number += len(payloads)",
                (
                    "        for each in self._multicasts if target is None else (opened,):\n"
                    "            each.next_number = batch.last + 1"
                ),
            ),
            Edit(
                "sitestack/layers/batching/layer.py",
                "            self._multicasts[batch.scope].next_back = batch.first + batch.count",
                ("            for each in self._multicasts:\n                each.next_back = batch.first + batch.count"),
            ),
            Edit(
                "sitestack/layers/sequencer/received_table.py",
                "        expected = numbers[batch.scope]",
                "        expected = numbers[0]",
            ),
            Edit(
                "sitestack/layers/sequencer/received_table.py",
                "(numbers[0], after) if batch.scope else (after, numbers[1])",
                "(after, after)",
            ),
        ),
        ("tests/simulation/relay/test_stream_stories.py::test_messages_for_the_own_site_leave_no_hole_elsewhere",),
    ),
    trap(
        "R29",
        "a site that comes late is told that it has lost what was before its time",
        "relay/gateway/sender.py",
        "        if fresh:",
        "        if False:",
        "tests/simulation/relay/test_stream_stories.py::test_a_site_that_comes_late_begins_where_the_others_are",
    ),
    Mutant(
        "X5",
        "after a merge what is held of an origin is taken for the newest",
        (
            Edit("relay/gateway/sender.py", "            if held and held[-1].last < produced:", "            if False:"),
            Edit("relay/replica/state.py", "        self._drop_acked()  # one part may", "        pass  # one part may"),
        ),
        (
            "tests/simulation/relay/test_merge_stories.py::test_older_entries_of_a_returned_part_do_not_hide_a_gap_of_dropped_entries",
        ),
    ),
    trap(
        "G3",
        "of a lineage that is forgotten nobody knows any more what it has shown",
        "relay/replica/remote_site.py",
        "        if forget:\n            del self.lineages[name]",
        "        if forget:\n            del self.lineages[name]\n            self.reached.pop(name, None)",
        "tests/simulation/relay/test_merge_stories.py::test_a_paused_member_with_a_forgotten_lineage_does_not_restore_an_old_view",
    ),
    Mutant(
        "R1 views",
        "a view in the window waits for an acknowledgement that only a view that is news has",
        (
            Edit(
                "relay/gateway/sender.py",
                "            self._ahead.append(encode(RemoteView(self._site, view)))",
                (
                    "            self._ahead.append(encode(RemoteView(self._site, view)))\n"
                    "            self._in_flight.append("
                    '(Batch(self._site, view.coordinator, Scope.ALL, 1 << 40, 1, b""), 100))\n'
                    "            self.in_flight_bytes += 100"
                ),
            ),
            Edit("relay/gateway/sender.py", "import Batch", "import Batch, Scope"),
        ),
        ("tests/relay/gateway/test_injector.py::test_a_view_that_the_peer_knows_already_does_not_keep_the_window_full",),
    ),
    trap(
        "X5-first-site",
        "a site without peers does not count what it sent, and a site that is added is not told where to begin",
        "relay/layer/layer.py",
        "                self.state.produced[batch.origin] = batch.last  #",
        "                pass  #",
        "tests/simulation/relay/test_changed_peers.py::test_a_first_site_that_is_added_begins_after_what_the_dead_have_sent",
    ),
    trap(
        "M8-sweep",
        "a site reports that it has all writes of a map although it has not repaired a gap",
        "relay/structures/map_replica.py",
        "self._lacking.isdisjoint({*channel.sites} - {channel.site})",
        "True",
        "tests/relay/structures/test_map.py::test_a_tombstone_stays_until_the_sites_that_missed_it_have_repaired_their_gap",
    ),
    trap(
        "M8-leader",
        "a leader does not look at what only members of its site have",
        "relay/structures/map_replica.py",
        "and self.state.differing(digests):",
        "and False:",
        "tests/relay/structures/test_map.py::test_what_only_the_followers_of_a_site_have_reaches_their_leader",
    ),
    trap(
        "M8-number",
        "the late end of an earlier answer ends the pull of a map",
        "relay/structures/map_replica.py",
        "if (source, number) == (self._source, self._number):",
        "if source == self._source:",
        "tests/relay/structures/test_map.py::test_an_answer_to_an_earlier_question_ends_no_later_one",
    ),
    trap(
        "R5-window",
        "what the other site acknowledges during a replay is sent again, and fills the window for ever",
        "relay/gateway/sender.py",
        "                self._sent[origin] = last",
        "                pass",
        "tests/relay/gateway/test_holes.py"
        "::test_what_a_peer_acknowledges_during_a_replay_is_not_sent_again_and_keeps_no_window_full",
    ),
    trap(
        "X5-tail",
        "a gap at the end is not told when the messages before it are acknowledged during a replay",
        "relay/gateway/sender.py",
        "= last\n                self._skip_tail(origin)\n",
        "= last\n",
        "tests/relay/gateway/test_holes.py::test_a_gap_at_the_end_is_told_behind_what_the_peer_acknowledged_during_a_replay",
    ),
    trap(
        "X5-second-state",
        "the STATE that waited for an added site counts although a later one came",
        "relay/gateway/sender.py",
        "        self._postponed.clear()\n",
        "",
        "tests/relay/gateway/test_holes.py::test_a_second_state_of_an_added_site_counts_and_not_the_one_that_waited",
    ),
    trap(
        "X5-begin",
        "a relay tells an added site where to begin before its own site holds anything for it",
        "relay/gateway/sender.py",
        "        if self.peer not in self._state.sites:",
        "        if False:",
        "tests/relay/gateway/test_holes.py::test_an_added_site_begins_when_messages_are_held_for_it",
    ),
    trap(
        "X11 senders",
        "nobody tells the senders that a site lags by the budget",
        "relay/layer/layer.py",
        "        waiting_for = self.pace.waits_for()",
        "        waiting_for = ()",
        "tests/simulation/relay/test_pace.py::test_a_sender_faster_than_the_link_waits_and_loses_no_message",
    ),
    trap(
        "X11 order",
        "a member drops for the budget what a waited-for site lacks, since it comes earlier here than at the relay",
        "relay/replica/replica.py",
        "min(entry.position, self.pace.floor() - 1)",
        "entry.position",
        "tests/relay/replica/test_budget.py::test_a_trim_keeps_what_a_waited_for_site_lacks_though_the_relay_had_another_order",
    ),
    trap(
        "X11 slow",
        "a site is waited for however slow it is",
        "relay/gateway/least_pace.py",
        "                    entries.append(",
        "                    (lambda entry: None)(",
        "tests/simulation/relay/test_pace.py::test_senders_wait_for_a_site_below_the_least_pace_for_a_grace_time_before_gaps",
    ),
    trap(
        "STATE-offline",
        "a member waits for the state of sites that are offline, and holds back its own site",
        "relay/site_state/requester.py",
        "        if is_late or self._state.switches.offline.keys() >= {*self.sites}:",
        "        if is_late:",
        "tests/relay/site_state/test_requester_and_provider.py"
        "::test_a_requester_gives_up_at_once_while_all_its_sites_are_offline",
    ),
    trap(
        "X11-held-back",
        "a site is slow although it lacks only entries that its own site may not send yet",
        "relay/gateway/least_pace.py",
        "                last = min(last, self._watermarks.sendable + 1)\n",
        "",
        "tests/relay/gateway/test_least_pace.py::test_a_site_that_lacks_only_what_the_own_site_holds_back_is_not_slow",
    ),
    trap(
        "STATE-disinherited",
        "a joiner that gets no state does not deliver what the state of its provider had",
        "relay/site_state/exchange.py",
        "                remote.disinherit(self._me)\n",
        "                pass\n",
        "tests/relay/replica/test_ahead.py::test_a_joiner_that_gets_no_state_delivers_what_the_state_of_its_provider_had",
    ),
    trap(
        "STATE-site",
        "a member with the state of another site forgets that it lacks messages of its own site",
        "sitestack/channel/receiving/state_handover.py",
        "            self._history += history\n            self._adopt",
        "            self._adopt",
        "tests/sitestack/channel/receiving/test_state_extras.py"
        "::test_history_of_the_own_site_only_is_kept_with_the_state_of_another_site",
    ),
    trap(
        "STATE-skip",
        "a state for another site comes with a gap for messages that follow it",
        "sitestack/channel/receiving/inbox.py",
        "if isinstance(item, View | StateMark):",
        "if isinstance(item, View):",
        "tests/sitestack/channel/receiving/test_receive_end.py"
        "::test_a_gap_for_a_slow_application_ends_at_the_place_of_a_snapshot",
    ),
    trap(
        "STATE-decline",
        "a joiner waits for an application that skips its backlog, and so does its site for the joiner",
        "sitestack/channel/receiving/receive_end.py",
        "        self._state.decline(self._hand_in)\n",
        "        pass\n",
        "tests/sitestack/channel/receiving/test_state_extras.py"
        "::test_a_site_does_not_wait_for_a_joiner_whose_provider_does_not_read",
    ),
    trap(
        "STATE-inherited",
        "a joiner is not told what its provider inherited from a departed member, and is shown it twice",
        "relay/site_state/exchange.py",
        "        raise_contents(contains, self._inherited)\n",
        "        pass\n",
        "tests/relay/site_state/test_exchange.py"
        "::test_messages_of_a_state_inherited_from_a_departed_member_are_forwarded_to_the_next_joiner",
    ),
    trap(
        "STATE-departed",
        "a state from another site is provided without the numbers of departed members of the own site, and shows them twice",
        "relay/site_state/contents.py",
        "    raise_to(contents[state.site], state.inherited)",
        "    raise_to(contents[state.site], {})",
        "tests/relay/site_state/test_exchange.py"
        "::test_an_adopted_state_is_provided_with_the_messages_of_departed_members_of_the_own_site",
    ),
    trap(
        "X2-provider",
        "a joiner whose provider changes does not take back what the former one had and the new one lacks",
        "relay/replica/remote_site.py",
        "        superseded = self.inherited\n",
        "        superseded = dict[Address, int]()\n",
        "tests/relay/replica/test_ahead.py"
        "::test_a_joiner_whose_provider_is_of_another_part_begins_at_the_state_of_the_provider",
    ),
    trap(
        "R12-id",
        "a linked site opens routes with the ids that two others would use next, and keeps them apart",
        "relay/gateway/routes.py",
        "RouteId(piece.opener, piece.number, piece.source)",
        "next((each for each in self._routes if each[:2] == (piece.opener, piece.number)), RouteId(piece.opener, piece.number, "
        "piece.source))",
        "tests/relay/gateway/test_routes.py::test_a_site_that_takes_the_id_of_a_route_of_another_does_not_keep_it_out",
    ),
    trap(
        "STATE-unknown",
        "messages of a site that a reload adds are shown again, although the state of another site contains them",
        "relay/replica/state.py",
        "Remote(inherited=self.unknown.pop(site, {}))",
        "Remote()",
        "tests/relay/site_state/test_exchange.py::test_history_of_a_site_that_is_known_later_is_not_delivered_again",
    ),
)
