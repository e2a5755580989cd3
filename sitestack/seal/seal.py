"""The seal of one process: encrypts and authenticates sent datagrams, and opens authentic, new ones
of live senders.

    seal   a counter, never used before; one AES-GCM
    open   authenticate before reading any byte but the key's names; then the sender's replay window. Without a
           window: introductions

Rejected input is counted by its reason and never answered.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sitestack.model.address import Physical
from sitestack.model.level import Level
from sitestack.seal import envelope
from sitestack.seal.envelope import COUNTER_BYTES, HEADER_BYTES, NONCE_END, OVERHEAD_BYTES, STAMP_BYTES
from sitestack.seal.introductions import INTRODUCTION_BYTES, INTRODUCTIONS_PER_S, NO_NONCE, Held, Introduction, Strangers
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.replay_window import ReplayWindow

#: Maximum senders with a window, of 8 KiB each; beyond it the longest silent one is evicted, and
#: introduced again.
SENDERS_MAX = 1_024
#: Maximum cached ciphers per sender: one for each key of the ring, and some for the next epochs of
#: its counter.
_CIPHERS_MAX = 16
#: Maximum cached ciphers for strangers; the oldest is evicted.
_STRANGERS_CIPHERS_MAX = 256
#: Seconds, at most twice that, for which an envelope counts as fresh when its sender answers.
FRESH_S = 5.0
#: How a plain datagram begins (`sitestack/wire/codec.py`).
_PLAIN_MAGIC = b"\xb7R"

_PURPOSE = b"sitestack seal 1"

#: A datagram with its source, or its target.
Arrived = tuple[bytes, Physical]
Answer = tuple[Physical, bytes]


@dataclass(slots=True)
class Opened:
    datagrams: list[Arrived] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    #: Reason -> number of rejected envelopes.
    drops: dict[str, int] = field(default_factory=dict)

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.drops[reason] = self.drops.get(reason, 0) + count


class _Sender:
    __slots__ = ("ciphers", "heard_at", "window")

    def __init__(self, window: ReplayWindow, now: float) -> None:
        self.window = window
        self.heard_at = now
        #: By key id and the upper half of the counter.
        self.ciphers: dict[bytes, AESGCM] = {}


class Seal:
    def __init__(self, cluster: str, ring: KeyRing, sender_id: bytes, draw_nonce: Callable[[], bytes], now: float) -> None:
        """`sender_id` is random and was never used before; `draw_nonce` draws 8 random bytes."""
        self._cluster = cluster
        self._ring = ring
        self._stamp_keys = self._derive_stamp_keys()
        self._sender_id = sender_id
        self._head = envelope.head(envelope.DATAGRAM, cluster)
        self._introduction_head = envelope.head(envelope.INTRODUCTION, cluster)
        #: The next counter, and its value FRESH_S ago, or twice that.
        self._counter = self._marked = self._floor = 1
        self._marked_at = now
        self._cipher, self._stamp = self._own_cipher()
        self._senders: dict[bytes, _Sender] = {}
        self._strangers_ciphers: dict[bytes, AESGCM] = {}
        self._strangers = Strangers(draw_nonce)
        self._second_began, self._sent_in_second = now, 0

    def use_ring(self, ring: KeyRing) -> int:
        """Use the keys of this ring. Return the number of dropped held datagrams: a removed key may have opened them."""
        removed = not self._ring.keys.keys() <= ring.keys.keys()
        self._ring = ring
        self._stamp_keys = self._derive_stamp_keys()
        self._cipher, self._stamp = self._own_cipher()
        self._strangers_ciphers.clear()
        for sender in self._senders.values():
            sender.ciphers.clear()
        return self._strangers.clear() if removed else 0

    def seal(self, data: bytes, now: float) -> bytes:
        if now >= self._marked_at + FRESH_S:
            self._mark(now)
        return self._enclose(self._head, data)

    def _enclose(self, head: bytes, body: bytes) -> bytes:
        counter = self._counter
        if counter & 0xFFFF_FFFF == 0:
            self._cipher, self._stamp = self._own_cipher()
        self._counter = counter + 1
        nonce = self._ring.in_use + counter.to_bytes(COUNTER_BYTES, "big")
        header = head + self._sender_id + nonce + self._stamp
        return header + self._cipher.encrypt(nonce, body, header)

    def _own_cipher(self) -> tuple[AESGCM, bytes]:
        key_and_epoch = self._ring.in_use + self._counter.to_bytes(COUNTER_BYTES, "big")[:4]
        stamp = make_stamp(self._stamp_keys[self._ring.in_use], self._sender_id, key_and_epoch)
        return self._cipher_of(self._sender_id, key_and_epoch), stamp

    def _cipher_of(self, sender_id: bytes, key_and_epoch: bytes) -> AESGCM:
        key = self._ring.keys[key_and_epoch[:4]]
        return make_cipher(key.pseudorandom_key, self._cluster, sender_id, key_and_epoch[4:])

    def _strangers_cipher(self, sender_id: bytes, key_and_epoch: bytes) -> AESGCM:
        """Return the cipher of a sender with a valid stamp. Cached: a copied header may precede any bytes."""
        name = sender_id + key_and_epoch
        cipher = self._strangers_ciphers.get(name)
        if cipher is None:
            if len(self._strangers_ciphers) == _STRANGERS_CIPHERS_MAX:
                del self._strangers_ciphers[next(iter(self._strangers_ciphers))]
            cipher = self._strangers_ciphers[name] = self._cipher_of(sender_id, key_and_epoch)
        return cipher

    def _derive_stamp_keys(self) -> dict[bytes, bytes]:
        return {key_id: make_stamp_key(key.pseudorandom_key, self._cluster) for key_id, key in self._ring.keys.items()}

    def _mark(self, now: float) -> None:
        """Mark the present counter. After a long pause all earlier counters are old."""
        idle = now >= self._marked_at + 2 * FRESH_S
        self._floor = self._counter if idle else self._marked
        self._marked, self._marked_at = self._counter, now

    def open(self, arrived: Iterable[Arrived], now: float) -> Opened:
        """Open arrived envelopes in order. An introduction releases the held datagrams of its sender."""
        opened = Opened()
        head, senders = self._head, self._senders
        for data, source in arrived:
            sender = senders.get(data[8:24])
            cipher = None if sender is None else sender.ciphers.get(data[24:32])
            if sender is None or cipher is None or data[:8] != head:
                self._open_slowly(data, source, now, opened)
                continue
            try:
                plain = cipher.decrypt(data[24:NONCE_END], data[HEADER_BYTES:], data[:HEADER_BYTES])
            except InvalidTag:
                opened.drop("seal_forged")
                continue
            sender.heard_at = now
            if refusal := sender.window.admit(int.from_bytes(data[28:NONCE_END], "big"), now):
                opened.drop(refusal)
            else:
                opened.datagrams.append((plain, source))
        return opened

    def _open_slowly(self, data: bytes, source: Physical, now: float, opened: Opened) -> None:
        """Open an envelope of a stranger, an introduction, or the first one with a key; or count why it fails."""
        sender_id, key_and_epoch = data[8:24], data[24:32]
        if why := self._why_not(data):
            opened.drop(why)
            return
        cipher = self._strangers_cipher(sender_id, key_and_epoch)
        try:
            plain = cipher.decrypt(data[24:NONCE_END], data[HEADER_BYTES:], data[:HEADER_BYTES])
        except InvalidTag:
            opened.drop("seal_forged")
            return
        if sender_id == self._sender_id:
            opened.drop("seal_own")
            return
        counter = int.from_bytes(data[28:NONCE_END], "big")
        sender = self._senders.get(sender_id)
        if sender is not None:
            if len(sender.ciphers) == _CIPHERS_MAX:
                sender.ciphers.clear()
            sender.ciphers[key_and_epoch] = cipher
            sender.heard_at = now
            if refusal := sender.window.admit(counter, now):
                opened.drop(refusal)
                return
        if data[:8] == self._introduction_head:
            self._meet(sender_id, plain, counter, source, now, opened)
        elif sender is not None:
            opened.datagrams.append((plain, source))
        else:
            self._hold(sender_id, Held(counter, plain, source), now, opened)

    def _why_not(self, data: bytes) -> str:
        if data[:2] != envelope.MAGIC:
            return "seal_plain" if data[:2] == _PLAIN_MAGIC else "seal_magic"
        if data[2:3] != self._head[2:3]:
            return "seal_version"
        if len(data) < OVERHEAD_BYTES:
            return "seal_forged"
        if data[4:8] != self._head[4:8]:
            return "seal_cluster"
        if data[24:28] not in self._ring.keys:
            return "seal_key"
        stamp = make_stamp(self._stamp_keys[data[24:28]], data[8:24], data[24:32])
        if not hmac.compare_digest(stamp, data[NONCE_END:HEADER_BYTES]):
            return "seal_forged"
        return "" if data[:8] in (self._head, self._introduction_head) else "seal_forged"

    def _hold(self, sender_id: bytes, held: Held, now: float, opened: Opened) -> None:
        if (
            len(held.data) + OVERHEAD_BYTES >= INTRODUCTION_BYTES
            and (ask := self._strangers.next_nonce(sender_id, now)) is not None
        ):
            opened.drop("seal_stranger", self._strangers.make_room())
            self._introduce(sender_id, ask, NO_NONCE, held.source, now, opened)
        if not self._strangers.hold(sender_id, held):
            opened.drop("seal_stranger")

    def _meet(self, sender_id: bytes, body: bytes, counter: int, source: Physical, now: float, opened: Opened) -> None:
        told = Introduction.parse(body)
        if told is None or told.to != self._sender_id:
            opened.drop("seal_introduction")
            return
        if self._strangers.is_answer(sender_id, told.answer, now):
            self._admit(sender_id, told.floor, counter, now, opened)
        if told.ask != NO_NONCE:
            known = sender_id in self._senders
            ask = NO_NONCE if known else self._strangers.next_nonce(sender_id, now) or NO_NONCE
            opened.drop("seal_stranger", self._strangers.make_room())
            self._introduce(sender_id, ask, told.ask, source, now, opened)

    def _introduce(self, to: bytes, ask: bytes, answer: bytes, place: Physical, now: float, opened: Opened) -> None:
        if now >= self._second_began + 1.0:
            self._second_began, self._sent_in_second = now, 0
        if self._sent_in_second == INTRODUCTIONS_PER_S:
            opened.drop("seal_introduction")
            return
        self._sent_in_second += 1
        if now >= self._marked_at + FRESH_S:
            self._mark(now)
        body = Introduction(to, ask, answer, self._floor).pack()
        opened.answers.append((place, self._enclose(self._introduction_head, body)))

    def _admit(self, sender_id: bytes, floor: int, counter: int, now: float, opened: Opened) -> None:
        """Admit a stranger that has proved to be alive, and open its fresh held datagrams."""
        held = self._strangers.release(sender_id)
        if len(self._senders) == SENDERS_MAX:
            del self._senders[min(self._senders, key=lambda each: self._senders[each].heard_at)]
        window = ReplayWindow(floor, now)
        self._senders[sender_id] = _Sender(window, now)
        window.admit(counter, now)
        for each in held:
            if refusal := window.admit(each.counter, now):
                opened.drop(refusal)
            else:
                opened.datagrams.append((each.data, each.source))

    def levels(self) -> dict[str, Level]:
        senders = Level.of(len(self._senders), SENDERS_MAX, "processes that were introduced")
        return {"senders": senders, **self._strangers.levels()}


def make_cipher(pseudorandom_key: bytes, cluster: str, sender_id: bytes, epoch: bytes) -> AESGCM:
    """Return the cipher of a sender for the envelopes whose counters begin with these 4 bytes.

    `pseudorandom_key` is that of the site's key (`SiteKey.pseudorandom_key`).
    """
    name = cluster.encode()
    info = b"".join((_PURPOSE, sender_id, epoch, len(name).to_bytes(4, "big"), name))
    return AESGCM(HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(pseudorandom_key))


def make_stamp_key(pseudorandom_key: bytes, cluster: str) -> bytes:
    """Return the key with which a site key stamps the envelopes of a cluster."""
    info = b"".join((_PURPOSE, b" stamp ", cluster.encode()))
    return HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(pseudorandom_key)


def make_stamp(stamp_key: bytes, sender_id: bytes, key_and_epoch: bytes) -> bytes:
    """Return the stamp of a sender for envelopes with this key id and upper half of the counter."""
    return hashlib.blake2s(sender_id + key_and_epoch, digest_size=STAMP_BYTES, key=stamp_key).digest()
