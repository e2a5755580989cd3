"""Messages with keys, as batches: each is a separate batch, in its place."""

from __future__ import annotations

from sitestack.layers.batching import Batching, Manner
from sitestack.model.envelope import KEY, Envelope, wrap
from sitestack.model.events import Disconnect
from sitestack.model.message import Batch, Scope
from sitestack.stack.layer import Dropped
from tests.sitestack.layers.batching.test_batching import batches, batching_of, come_back


def append_keyed(batching: Batching, payload: bytes, key: bytes) -> None:
    if key:
        batching.append(wrap(Envelope(headers={KEY: key}), payload), Scope.ALL, manner=Manner.KEYED)
    else:
        batching.append(payload, Scope.ALL)


def test_a_message_with_a_key_is_a_batch_of_its_own_and_keeps_its_place() -> None:
    batching = batching_of()
    for payload, key in ((b"1", b""), (b"2", b"key"), (b"3", b"another"), (b"4", b""), (b"5", b""), (b"6", b"other")):
        append_keyed(batching, payload, key)
    sent: list[Batch] = []
    while new := batches(batching.flush(0.0)):
        sent += new
        for batch in new:
            come_back(batching, batch)
    assert [(batch.first, list(batch.payloads()), batch.key) for batch in sent] == [
        (1, [b"1"], b""),
        (2, [b"2"], b"key"),
        (3, [b"3"], b"another"),
        (4, [b"4", b"5"], b""),
        (6, [b"6"], b"other"),
    ]
    levels = batching.levels()
    assert (levels["credit_bytes"].now, levels["outstanding_messages"].now) == (0, 0)


def test_a_message_with_a_key_alone_is_sent_and_counted_when_a_leave_is_too_late_for_it() -> None:
    batching = batching_of(joined=False)
    append_keyed(batching, b"1", b"key")
    batching.down(Disconnect(), 0.0)
    [dropped] = [effect for effect in batching.flush(6.0) if isinstance(effect, Dropped)]
    assert (dropped.reason, dropped.count) == ("unsent_at_stop", 1)
