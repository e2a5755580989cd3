"""Drawn mutants without a visible effect, each with its reason. They are not drawn again."""

from __future__ import annotations

#: (file, the line above, the line, its replacement), without white space around them -> why no test can notice.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    **{
        (
            "relay/gateway/peering.py",
            '"""Forget vectors not yet cast: the first ACK of each new link repeats all stable numbers."""',
            "self._collected.clear()",
            replacement,
        ): "what was acknowledged stays true; a relay that is back in office casts it, and `drain` leaves out what is known"
        for replacement in ("pass", "return")
    },
    (
        "relay/gateway/coordination.py",
        "due = buffer.age_due(after)",
        "if due is None or (before is not None and before <= due) or self._pace.floor() <= max(buffer.first, after + 1):",
        "if due is None or (before is not None and before <= due) or self._pace.floor() <= max(buffer.first, after + 2):",
    ): "counts only while a Trim is on its way, and for one entry; when it is back, `buffer.first` is `after + 1`",
    (
        "relay/gateway/session.py",
        "self._stable, self._stable_view = {}, None",
        "self._ack_due, self._unacked_bytes = None, 0",
        "self._ack_due, self._unacked_bytes = None, 1",
    ): "one byte of a quarter of a window of many thousands",
    (
        "relay/journal/store.py",
        "#: segment.",
        "self._began_w = 0",
        "pass",
    ): "each segment sets it as it begins, before any record asks",
    (
        "relay/layer/layer.py",
        "source = self._proxy(frame.batch.site, frame.batch.origin)",
        "effects.append(Up(Frame(source, None, (), frame.batch, False, frame.seqno, frame.stream)))",
        "effects.append(Up(Frame(source, None, (), frame.batch, True, frame.seqno, frame.stream)))",
    ): "above the layer that relays nobody asks whether a frame that comes up was unreliable",
    (
        "sitestack/channel/driver.py",
        "self._streaming = 0",
        "self._turn_bytes = 0",
        "self._turn_bytes = 1",
    ): "each turn sets it before it is read",
    (
        "sitestack/layers/discovery/directory.py",
        "known = self.contacts.get(member)",
        "if member == self.address or (known is not None and contact.version <= known.version):",
        "if member == self.address or (known is not None and contact.version < known.version):",
    ): "`AddressCache.put` refuses the same version once more, and nothing is said of it",
    (
        "sitestack/layers/sequencer/layer.py",
        "self._progress_at = 0.0",
        "self._backoff = 1",
        "self._backoff = 2",
    ): "a sequencer is blocked until its first view, which sets it again",
    (
        "sitestack/layers/sequencer/layer.py",
        "# On a copy: NAKACK's frame must not change (SEQ-8, S15).",
        "return [Up(Frame(batch.origin, None, (), batch, False, frame.seqno, frame.stream))]",
        "return [Up(Frame(batch.origin, None, (), batch, True, frame.seqno, frame.stream))]",
    ): "above the sequencer no layer reads whether a frame that comes up was unreliable",
}
