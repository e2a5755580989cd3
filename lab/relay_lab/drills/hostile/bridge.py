"""The attacks on the bridge: silent, short, slow and lying connections."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

from relay.gateway.wire import VERSION as BRIDGE_VERSION
from relay.gateway.wire import Bye, FrameParser, Hello, encode
from relay_lab.drills.hostile.target import ANSWER_BYTES, AttackReport, Target, Victim, client_context
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.frame import Header
from sitestack.model.view import ViewId

_PATIENCE_S = 2.0
_ANSWER_S = 0.5
_SLOW_S = 1.0
_LOOK_S = 0.05
_READ_BYTES = 65_535
#: Connections of attacks without a number.
_CONNECTIONS = 50
_HUGE = ((4 << 30) - 1, 64 << 20)
_EPOCH = 1 << 40
#: The first byte of a TLS alert, the only allowed answer.
_ALERT = 21


class Assault:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._count = int(target.amount) or _CONNECTIONS
        self._rng = random.Random(target.seed)
        self._account = AttackReport().begin()
        self._sent = self._account.sent
        self._began = time.monotonic()
        #: Only the relay listens.
        self._relay = self._listening()

    def run(self) -> AttackReport:
        attack: dict[str, Callable[[], None]] = {
            "idle": lambda: self._hold("idle", [b""]),
            "slow-handshake": lambda: self._hold("slow handshake", [_client_hello()]),
            "announce": lambda: self._hold("announced frames", [length.to_bytes(4, "big") + bytes(64) for length in _HUGE]),
            "plain": self._plain,
            "old-tls": self._old_tls,
            "claim": self._claim,
        }
        if self._relay is None:
            self._account.tell("No member listens.")
        else:
            attack[self._target.attack]()
        return self._account.end()

    def _listening(self) -> Victim | None:
        for victim in self._target.victims:
            with suppress(OSError), self._connect(victim):
                return victim
        return None

    def _connect(self, victim: Victim | None = None) -> socket.socket:
        victim = victim or self._relay
        assert victim is not None
        place = (victim.host, victim.bridge_port)
        return socket.create_connection(place, _PATIENCE_S, source_address=(self._target.source, 0))

    def _hold(self, kind: str, beginnings: list[bytes]) -> None:
        """Open connections, reopen closed ones, and send a byte a second on each, until the end."""
        count, deadline = self._count, time.monotonic() + self._target.seconds
        held: dict[int, _Held] = {}
        closed = refused = 0
        with ExitStack() as stack:
            while (now := time.monotonic()) < deadline:
                while len(held) < count and time.monotonic() < deadline:
                    try:
                        sock = stack.enter_context(self._connect())
                    except OSError:
                        refused += 1
                        break
                    sock.setblocking(False)
                    held[sock.fileno()] = _Held(sock, self._rng.choice(beginnings), now)
                    self._sent[kind] += 1
                    if self._sent[kind] >= 10 * count:
                        deadline = min(deadline, now + _SLOW_S)
                for number, each in list(held.items()):
                    if not each.say(now, self._answer):
                        held.pop(number).sock.close()
                        closed += 1
                time.sleep(_LOOK_S)
        self._account.tell(f"Of {self._sent[kind]} connections {closed} were closed by the relay; {refused} could not be made.")

    def _plain(self) -> None:
        """Send no TLS: a plain HELLO in the name of each other site, and garbage."""
        for sentence in self._each("plain HELLO", "garbage", "HTTP"):
            data = {"plain HELLO": self._hello(self._other().site), "garbage": self._rng.randbytes(500)}.get(
                sentence, b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n"
            )
            with suppress(OSError), self._connect() as sock:
                sock.sendall(data)
                self._sent[sentence] += 1
                self._listen(sock)

    def _old_tls(self) -> None:
        context = client_context(self._target.keys)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        for kind in self._each("TLS 1.2"):
            self._handshake(kind, context, self._hello(self._other().site))

    def _claim(self) -> None:
        """Send a HELLO in the name of another site, with the certificate of a site of the drill."""
        context = client_context(self._target.keys)
        for kind in self._each("claims another site", "claims the site itself", "announces 4 GiB"):
            said = {
                "claims another site": self._hello(self._other().site),
                "claims the site itself": self._hello(self._target.site),
            }.get(kind, _HUGE[0].to_bytes(4, "big") + bytes(64))
            self._handshake(kind, context, said)

    def _each(self, *kinds: str) -> Iterator[str]:
        """Yield the kinds in turn, evenly over the time of the attack."""
        deadline = self._began + self._target.seconds
        for at in range(self._count):
            due = self._began + self._target.seconds * at / self._count
            time.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() > deadline:
                return
            yield kinds[at % len(kinds)]

    def _handshake(self, kind: str, context: ssl.SSLContext, data: bytes) -> None:
        """Connect, send data after a successful handshake, and count the answers inside the connection."""
        try:
            with self._connect() as plain:
                self._sent[kind] += 1
                with context.wrap_socket(plain) as sock:
                    sock.sendall(data)
                    self._listen(sock, is_certified=bool(self._target.keys))
        except ssl.SSLError as error:
            self._account.tell(f"{kind}: {error.reason or error}.")
        except OSError as error:
            self._account.tell(f"{kind}: {error.strerror or error}.")

    def _hello(self, site: str) -> bytes:
        sender = next((each for each in self._target.others if each.site == site), self._other())
        relay = Address(bytes.fromhex(sender.uuid) if sender.uuid else self._rng.randbytes(UUID_BYTES))
        epoch = ViewId(_EPOCH, relay)
        return encode(Hello(BRIDGE_VERSION, site, epoch, epoch, relay, sender.name, 1, 1 << 24, 1 << 24))

    def _other(self) -> Victim:
        return self._target.others[0]

    def _listen(self, sock: socket.socket, *, is_certified: bool = False) -> None:
        """Read answers until the other end closes, for a bounded time.

        A certified caller may receive the listener's name and a refusal only.
        """
        parser = FrameParser(_READ_BYTES)
        deadline = time.monotonic() + _ANSWER_S
        with suppress(TimeoutError):
            while (left := deadline - time.monotonic()) > 0:
                sock.settimeout(left)
                if not (data := sock.recv(_READ_BYTES)):
                    return
                if is_certified:
                    parser.feed(data)
                    data = b"".join([encode(each) for each in _frames(parser) if not isinstance(each, Hello | Bye)])
                if data:
                    self._answer(data)

    def _answer(self, data: bytes) -> None:
        if data[0] == _ALERT and len(data) < ANSWER_BYTES:
            self._account.tell("Some were refused, by a TLS alert.")
        else:
            self._account.answer(data)


class _Held:
    """An open connection with the bytes that it has still to send."""

    def __init__(self, sock: socket.socket, data: bytes, now: float) -> None:
        self.sock = sock
        self._data = data
        self._due = now

    def say(self, now: float, answer: Callable[[bytes], None]) -> bool:
        """Send the next byte when due, and read answers; return whether the connection is open."""
        try:
            if self._data and now >= self._due:
                self.sock.send(self._data[:1])
                self._data, self._due = self._data[1:], now + _SLOW_S
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            answer(data)
        return bool(data)


def _frames(parser: FrameParser) -> Iterator[Header]:
    while (frame := parser.next_frame()) is not None:
        yield frame


def _client_hello() -> bytes:
    said = ssl.MemoryBIO()
    client = client_context().wrap_bio(ssl.MemoryBIO(), said)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


def attack(target: Target) -> AttackReport:
    return Assault(target).run()
