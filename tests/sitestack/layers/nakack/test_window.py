"""The receive window against the simplest model: a set of numbers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sitestack.layers.nakack.window import Window, frame_bytes
from tests.harness.messages import frame_of

STEPS = st.lists(st.tuples(st.sampled_from(["add", "take", "purge", "expect"]), st.integers(0, 30)), max_size=80)


@given(STEPS)
def test_a_window_holds_what_was_received_delivers_it_in_order_once_and_knows_what_is_missing(
    steps: list[tuple[str, int]],
) -> None:
    window, received, taken, stable, known = Window(20, 1 << 20), {0}, 0, 0, 0
    for step, number in steps:
        contiguous = next(n for n in range(100) if n + 1 not in received)
        if step == "add":
            frame = replace(frame_of("A", 1), seqno=number)
            refused = window.add(frame, frame_bytes(frame))
            expected = "nak_duplicate" if number in received else "nak_window" if number > stable + 20 else None
            assert refused == expected
            if refused is None:
                received.add(number)
            known = max(known, min(number, stable + 20))
        elif step == "take":
            frames = window.deliver_to(number)
            assert [frame.seqno for frame in frames] == list(range(taken + 1, min(number, contiguous) + 1))
            taken = max(taken, min(number, contiguous))
        elif step == "purge":
            window.purge(number)
            stable = max(stable, min(number, taken))
        else:
            window.expect(number)
            known = max(known, min(number, stable + 20))
        contiguous = next(n for n in range(100) if n + 1 not in received)
        assert (window.stable, window.delivered, window.contiguous, window.highest) == (stable, taken, contiguous, known)
        assert sorted(window.frames) == sorted(n for n in received if n > stable)
        assert window.ahead_bytes == sum(frame_bytes(window.frames[n]) for n in received if n > contiguous)
        missing = [n for first, last in window.missing(known, 100, 100) for n in range(first, last + 1)]
        assert missing == [n for n in range(1, known + 1) if n not in received]
