"""The mutants of lanes: each condition of each predicate taken away."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, trap

_FRAGMENT = "sitestack/layers/fragment/layer.py"
_LANES, _STACK, _TESTS = "sitestack/stack/lanes.py", "sitestack/stack/stack.py", "tests/sitestack/stack/test_lanes.py"
_ACCOUNTS, _FLOW = "sitestack/layers/flow_control/accounts.py", "sitestack/layers/flow_control/layer.py"
_UNICAST, _SENDER = "sitestack/layers/unicast/layer.py", "sitestack/layers/unicast/sender.py"
_RECEIVER, _FAILURES = "sitestack/layers/unicast/receiver.py", "sitestack/layers/failure_detection.py"
_DOWN, _UP, _BAD = (
    f"{_TESTS}::{name}"
    for name in ("test_a_message_walks_when", "test_a_frame_is_expanded_when", "test_bad_datagrams_are_dropped_and_counted")
)

_STREAM = "tests/sitestack/stack/test_stream_lanes.py"
_CAST, _CAST_UP, _BAD_CAST, _STRANGER = (
    f"{_STREAM}::{name}"
    for name in (
        "test_a_multicast_walks_when",
        "test_a_multicast_is_expanded_when",
        "test_bad_multicasts_are_dropped_and_counted",
        "test_a_multicast_with_other_headers_or_of_a_stranger_walks",
    )
)
_READERS = "tests/sitestack/layers/unicast/test_unicast_bounds.py::test_members_show_that_they_read_lanes"
_NAKACK, _WINDOW = "sitestack/layers/nakack/layer.py", "sitestack/layers/nakack/window.py"
_TAGS = "sitestack/layers/membership/view_tags.py"

#: The predicate's condition, its file, and the text without it; the story that must fail.
_DOUBT = "member in self._checks or member in self._suspected"

_CONDITIONS = (
    ("credit", _ACCOUNTS, "return has_credit and not self.queue and", "return not self.queue and", _DOWN),
    ("a queue for credit", _ACCOUNTS, "has_credit and not self.queue and", "has_credit and", _DOWN),
    ("a mark", _ACCOUNTS, " and sent + FRAME_BYTES + size - self.marked < self._mark_bytes", "", _DOWN),
    (
        "a block of flow control",
        _FLOW,
        "        if self._blocked:\n            return None\n        if dest is None:",
        "        if dest is None:",
        _DOWN,
    ),
    (
        "the size of a piece",
        "sitestack/layers/fragment/layer.py",
        "lambda size: size <= limit",
        "lambda size: limit > 0",
        _DOWN,
    ),
    ("an address", _LANES, "if not places or batch", "if batch", _CAST),
    (
        "the number of an acknowledgement",
        _UNICAST,
        "if dest in self._owing and self._owing[dest].fits_lane:",
        "if dest in self._owing:",
        f"{_TESTS}::test_an_acknowledgement_with_too_large_a_number_does_not_ride_on_a_lane",
    ),
    (
        "the count of a batch",
        _LANES,
        " or batch.count > COUNT_MAX:",
        ":",
        f"{_TESTS}::test_a_batch_of_too_many_messages_walks",
    ),
    ("a scope", _LANES, "scope = None if dest is None else batch.scope", "scope = None if dest is None else Scope(2)", _DOWN),
    (
        "another site",
        _LANES,
        ' or batch.target_site not in ("", self._site)',
        "",
        f"{_TESTS}::test_a_message_to_another_site_walks",
    ),
    ("a member's rank", _LANES, "if scope is None and rank is None:", "if not self:", _STRANGER),
    ("the headers of a multicast", _LANES, " or frame.headers != lane.kind.headers", "", _STRANGER),
    ("the rank in a head", _LANES, "head.origin >= len(self._members) or ", "", _BAD_CAST),
    ("the scope in a head", _LANES, " or head.scope >= len(_MULTICASTS)", "", _BAD_CAST),
    (
        "an own multicast",
        _LANES,
        "if cookie == self._own:",
        "if not cookie:",
        f"{_STREAM}::test_a_multicast_that_loops_back_is_nothing_new",
    ),
    (
        "the view of a lane",
        _LANES,
        "view = None if kind.scope is Scope.UNICAST else self._view_id",
        "view = None",
        f"{_STREAM}::test_a_lane_ends_with_its_view",
    ),
    (
        "the view tag",
        _TAGS,
        "return None if view is None or scope in UNICASTS else",
        "return None if view is None or scope is not None else",
        f"{_STREAM}::test_a_lane_stands_for_the_ordinary_frame",
    ),
    ("credit for multicasts", _FLOW, "SendPart(self._casts.is_usual, ", "SendPart(None, ", _CAST),
    ("members without lanes", _LANES, "each == self._me or unicasts.reads_lanes(each)", "each or unicasts", _CAST),
    ("strangers' lanes", _UNICAST, "sender.reads_lanes and peer in self._members", "sender.reads_lanes", _READERS),
    ("departed members' lanes", _UNICAST, "        self._lane_readers &= remaining\n", "", _READERS),
    ("an unread lane", _UNICAST, "sender.reads_lanes and peer in self._members", "peer in self._members", _READERS),
    ("a flush at the sender", _NAKACK, "is None or self._streams.blocked or not", "is None or not", _CAST),
    ("a stable frame", _NAKACK, " or not self._streams.windows[self._me].stable", "", _CAST),
    ("a number that fits", _NAKACK, "lambda size: self._streams.windows[self._me].contiguous < NUMBER_MAX", "None", _CAST),
    (
        "a flush at the receiver",
        _NAKACK,
        "        if self._streams.blocked:\n            return None\n        window",
        "        window",
        _CAST_UP,
    ),
    ("the next multicast", _WINDOW, "return seqno == self.contiguous + 1 and", "return", _CAST_UP),
    ("a later multicast", _WINDOW, "and self.contiguous == self.highest and", "and", _CAST_UP),
    (
        "the end of the window",
        _WINDOW,
        "self.contiguous == self.highest and seqno <= self._limit",
        "self.contiguous == self.highest",
        _CAST_UP,
    ),
    ("short ids", _STACK, "self._ids is not None or self._limits or", "self._limits or", _DOWN),
    ("narrow paths", _STACK, "or self._limits or", "or", _DOWN),
    ("a waiting frame", _STACK, " or frame.dest in self._boxed", "", _CAST),
    ("frames before it", _STACK, ">= LANE_FRAMES_MAX", "> LANE_FRAMES_MAX", _CAST),
    ("room in a datagram", _STACK, " or LANE_HEAD_BYTES + len(batch.body) > self._room:", ":", _DOWN),
    (
        "a block of unicasts",
        _UNICAST,
        "if self._blocked or dest is None or dest not in self._senders:",
        "if dest is None or dest not in self._senders:",
        _DOWN,
    ),
    (
        "a connection",
        _UNICAST,
        "sender is not None and sender.is_usual(size)",
        "sender is None or sender.is_usual(size)",
        _DOWN,
    ),
    ("an acknowledgement", _SENDER, "is_open = self._opened and ", "is_open = ", _DOWN),
    ("a receiver that reads lanes", _SENDER, " and self.reads_lanes and", " and", _DOWN),
    ("a queue for the window", _SENDER, "reads_lanes and not self.queue", "reads_lanes", _DOWN),
    ("a seqno that fits", _SENDER, "is_open and self._next_seqno <= NUMBER_MAX and", "is_open and", _DOWN),
    ("room in the window", _SENDER, " <= NUMBER_MAX and self._has_room(FRAME_COST_BYTES + size)", " <= NUMBER_MAX", _DOWN),
    (
        "the version of a receiver",
        _SENDER,
        "header.window >= LANE_WINDOW_MIN",
        "True",
        f"{_TESTS}::test_a_member_that_reads_no_lanes_is_sent_none",
    ),
    ("the next number", _RECEIVER, "head.seqno == self._next_seqno and head", "head", _UP),
    (
        "the connection of a frame",
        _RECEIVER,
        "is_next = head.seqno == self._next_seqno and head.conn_id == self.conn_id",
        "is_next = head.seqno == self._next_seqno",
        f"{_TESTS}::test_a_connection_that_was_opened_again_is_not_taken_for_the_one_before",
    ),
    ("a hole", _RECEIVER, "is_next and head.seqno > self._highest and", "is_next and", _UP),
    ("an early message", _RECEIVER, "> self._highest and not self.early", "> self._highest", _UP),
    ("held frames", _UNICAST, " and not self._reorder_all_bytes.now", "", _UP),
    (
        "a block at the receiver",
        _UNICAST,
        "        if self._blocked:\n            return None\n\n        def is_usual(head",
        "        def is_usual(head",
        _UP,
    ),
    ("a watched sender", _FAILURES, "lambda head: source in self._heard and not", "lambda head: not", _UP),
    (
        "a checked sender",
        _FAILURES,
        _DOUBT,
        "member in self._suspected",
        _UP,
    ),
    (
        "a suspected sender",
        _FAILURES,
        _DOUBT,
        "member in self._checks",
        _UP,
    ),
    ("a demand to walk", _LANES, "if lane.accept is None or walk:", "if lane.accept is None:", _UP),
    ("the size of a body", _LANES, "size != len(data) - start or ", "", _BAD),
    ("a count that fits", _LANES, "not 0 < messages <= size // 4 or ", "", _BAD),
    ("a first number that fits", _LANES, " or not 0 < head.first <= INT_MAX - messages:", ":", _BAD),
    ("a connection that is open", _RECEIVER, "head.conn_id != self.conn_id or head.seqno < 1", "head.seqno < 1", _BAD),
    ("a positive seqno", _RECEIVER, "head.conn_id != self.conn_id or head.seqno < 1", "head.conn_id != self.conn_id", _BAD),
    (
        "an announcement",
        _STACK,
        "        self.lanes.close(event.view if isinstance(event, ViewInstalled) else None)\n",
        "",
        f"{_TESTS}::test_an_announcement_closes_lanes_until_the_layers_open_them_again",
    ),
)

LANES: tuple[Mutant, ...] = tuple(
    [
        trap(f"L-{what.replace(' ', '-')}", f"lanes do not look at {what}", file, snippet, replacement, story)
        for what, file, snippet, replacement, story in _CONDITIONS
    ]
)
