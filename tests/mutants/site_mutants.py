"""The mutants of package `sitestack`: traps of JGroups' designs SEQUENCER, Logical addresses and UNICAST2."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

FAILOVER = "tests/simulation/test_coordinator_failover.py"
SENDERS = "tests/simulation/test_senders.py"
RESETS = "tests/simulation/test_resets.py"
PLACES = "tests/simulation/test_places.py"
RESOLVER = "tests/sitestack/layers/test_resolver.py"
REFUSALS = "tests/sitestack/layers/membership/test_membership_refusals.py"

#: Takes away the second protection behind S1, S2 and S4: a member admits the next number only. Without it a hole is skipped.
_ADMIT_HOLES = Edit(
    "sitestack/layers/sequencer/received_table.py",
    "        if batch.first == expected:",
    "        if batch.first >= expected:",
)
#: Takes away the second protection behind S3 and S11: a message that does not come back is forwarded again after a while.
_NO_RESEND_TIMER = Edit(
    "sitestack/layers/sequencer/layer.py",
    "        return self._progress_at + self._backoff * self._config.resend_interval_s",
    "        return None",
)
#: Takes away the second protection behind U3: messages have an identity of their own, above the connection.
_NO_MESSAGE_ID = Edit(
    "sitestack/layers/unicast/receiver.py",
    "        start = max(seqno, self.last_mid + 1 - self._offset)",
    "        start = seqno",
)

SEQUENCER = (
    Mutant(
        "S1",
        "forwards may overtake each other, and everything up to the highest number counts as delivered",
        (
            _ADMIT_HOLES,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "effects.append(Down(Frame(self._me, coordinator, _FORWARD, batch)))",
                "effects.append(Down(Frame(self._me, coordinator, _FORWARD, batch, True)))",
            ),
        ),
        (f"{SENDERS}::test_what_overtakes_an_earlier_message_on_the_way_waits_for_it",),
    ),
    Mutant(
        "S2",
        "new messages are forwarded before those that have to be sent again",
        (
            _ADMIT_HOLES,
            Edit(
                "sitestack/layers/sequencer/forward_table.py",
                "        self._unstable.clear()\n        self.rewind()",
                "        self._unstable.clear()",
            ),
        ),
        (f"{FAILOVER}::test_what_is_sent_again_goes_before_what_is_new",),
    ),
    Mutant(
        "S3",
        "a forward that arrives before the view is dropped, and nobody sends it again",
        (
            _NO_RESEND_TIMER,
            Edit(
                "sitestack/layers/membership/view_tags.py",
                "        dropped = self._held.hold(frame)\n",
                "        dropped = 1\n",
            ),
        ),
        (f"{FAILOVER}::test_a_forward_that_is_faster_than_the_view_waits_for_it",),
    ),
    Mutant(
        "S4",
        "a new coordinator casts what is new and not what its predecessor had left undone",
        (
            _ADMIT_HOLES,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        self._table.view_changed()",
                "        if view.coordinator != self._me:\n            self._table.view_changed()",
            ),
        ),
        (f"{FAILOVER}::test_a_new_coordinator_sequences_its_old_messages_before_its_newer_ones",),
    ),
    Mutant(
        "S5",
        "a view is installed without equalising the old one's streams",
        (
            Edit(
                "sitestack/layers/membership/flush.py",
                "            upto, holders = self._cut(part)",
                "            upto, holders = {}, {}",
            ),
        ),
        (
            f"{FAILOVER}::test_what_one_survivor_had_delivered_comes_first_everywhere",
            f"{FAILOVER}::test_the_example_of_seed_000_who_missed_the_last_two_gets_them_once",
            f"{FAILOVER}::test_what_a_survivor_has_delivered_reaches_all_even_when_origin_and_coordinator_died",
        ),
    ),
    Mutant(
        "S6",
        "what not every survivor holds is given up, though its origin has seen it delivered",
        (
            Edit(
                "sitestack/layers/membership/flush.py",
                "if number > known or (number == known > 0 and member == sender):",
                "if number < upto.get(sender, 1 << 62):",
            ),
        ),
        (f"{FAILOVER}::test_what_its_sender_alone_had_delivered_reaches_the_others",),
    ),
    Mutant(
        "S7",
        "who has left is forgotten at once",
        (
            Edit(
                "sitestack/layers/sequencer/received_table.py",
                "        self._left = dict(list(known.items())[excess:])",
                "        self._left = {}",
            ),
        ),
        (f"{SENDERS}::test_who_was_excluded_while_it_lived_delivers_nothing_twice_when_it_is_back",),
    ),
    Mutant(
        "S9",
        "a joiner expects every origin to begin with number 1",
        (Edit("sitestack/layers/sequencer/layer.py", "        self._received.restore(state.numbers)", "        pass"),),
        (f"{SENDERS}::test_a_joiner_begins_where_the_others_are",),
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
        (f"{FAILOVER}::test_nobody_sequences_a_message_of_a_member_that_the_view_has_excluded",),
    ),
    Mutant(
        "S11",
        "messages are forwarded again only when there is another coordinator",
        (
            _NO_RESEND_TIMER,
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        view = self._view = event.view",
                "        old, view = self._view, event.view\n        self._view = view",
            ),
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        self._table.view_changed()",
                "        if old is None or old.coordinator != view.coordinator:\n            self._table.view_changed()",
            ),
        ),
        (f"{SENDERS}::test_what_the_same_coordinator_could_not_take_is_forwarded_again_after_the_view",),
    ),
    Mutant(
        "S16",
        "who leaves does not wait for what it has sent",
        (
            Edit(
                "sitestack/layers/batching/layer.py",
                "        self._leave_at = now + self._config.stop_timeout_s",
                "        self._leave_at = now",
            ),
        ),
        (f"{SENDERS}::test_who_leaves_stays_until_its_messages_are_delivered",),
    ),
)

UNICAST = (
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
        (f"{RESETS}::test_a_new_connection_whose_first_message_is_lost_delivers_all_in_order",),
    ),
    Mutant(
        "U3",
        "a first message of any other connection opens a new window",
        (
            _NO_MESSAGE_ID,
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
        (f"{RESETS}::test_a_late_first_message_of_an_old_connection_disturbs_nothing",),
    ),
    Mutant(
        "U4",
        "a closed connection leaves nothing behind by which its messages are recognised",
        (_NO_MESSAGE_ID,),
        (f"{RESETS}::test_what_was_delivered_and_not_acknowledged_is_not_delivered_again_after_a_reset",),
    ),
    Mutant(
        "U6",
        "an acknowledgement counts for whatever connection there is",
        (
            Edit(
                "sitestack/layers/unicast/sender.py",
                "        if header.conn_id != self.conn_id or header.window < self._acked_window:",
                "        if False:",
            ),
        ),
        (f"{RESETS}::test_an_acknowledgement_of_the_old_connection_settles_nothing_of_the_new_one",),
    ),
)

STRANGERS = (
    Mutant(
        "C15",
        "without multicast whoever says where he is hears everything",
        (
            Edit(
                "sitestack/layers/resolver/layer.py",
                "        if frame.unreliable or not self._members:",
                "        if True:",
            ),
        ),
        (f"{RESOLVER}::test_without_multicast_a_stranger_hears_that_others_are_looked_for_and_no_message",),
    ),
    Mutant(
        "C4-prepare",
        "the view in force is prepared again, outside of every flush",
        (
            Edit(
                "sitestack/layers/membership/promises.py",
                " and prepare.base is not None and self.blocked_since is not None",
                " and prepare.base is not None",
            ),
        ),
        (f"{REFUSALS}::test_the_view_in_force_is_not_prepared_again",),
    ),
    Mutant(
        "C12",
        "room is made for an array before its elements are counted",
        (Edit("sitestack/wire/plain.py", "        require_whole(data, scanner=scanner)\n", ""),),
        ("tests/sitestack/wire/test_codec.py::test_what_is_refused_takes_no_more_room_than_a_few_times_its_bytes",),
    ),
)

PLACES_OF_MEMBERS = (
    Mutant(
        "A1",
        "an address is added only if none is known",
        (
            Edit(
                "sitestack/model/address_cache.py",
                "        if known is not None and contact.version <= known.version:",
                "        if known is not None:",
            ),
        ),
        (f"{PLACES}::test_who_has_moved_is_reached_at_its_new_address",),
    ),
    Mutant(
        "A3",
        "a datagram is for whoever is at the address",
        (
            Edit(
                "sitestack/stack/stack.py",
                "        if datagram.dest is not None and datagram.dest != self.address:",
                "        if False:",
            ),
        ),
        (f"{PLACES}::test_what_is_for_the_dead_is_not_taken_by_who_starts_at_its_address",),
    ),
    Mutant(
        "A13",
        "who finds nobody but other joiners founds a site",
        (
            Edit(
                "sitestack/layers/membership/joining.py",
                "            return None\n        return self.start()",
                "            return None\n        return None",
            ),
        ),
        (f"{PLACES}::test_when_all_start_at_once_one_founds_the_site_and_the_others_join_it",),
    ),
)
