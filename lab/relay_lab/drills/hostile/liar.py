"""The attack of a linked site: after a sound HELLO it sends every frame of the bridge, to the relays of all sites."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

from relay.gateway.wire import Bye, Compressed, Data, FrameParser, Hello, Routed, State, encode, require_standing
from relay_lab.drills.hostile.target import AttackReport, Target, Victim, client_context
from relay_lab.sim.lies import ENDED, FRAMES_MAX, LIAR, PAUSE_S, Lies
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope, pack_body

_PATIENCE_S = 2.0
_READ_BYTES = 65_536
_READS_MAX = 64
_FRAME_BYTES_MAX = 1 << 24


class _Link:
    """A link to the relay of a site. A `careful` one breaks no rule for which the relay would close it."""

    def __init__(self, sock: ssl.SSLSocket, victim: Victim, careful: bool) -> None:
        self.sock, self.victim, self.careful = sock, victim, careful
        self.parser = FrameParser(_FRAME_BYTES_MAX)

    def may_say(self, frame: Header) -> bool:
        if not self.careful:
            return True
        with suppress(ProtocolError):
            require_standing(LIAR, self.victim.site, frame)
            return not isinstance(frame, Bye | Compressed | Hello)
        return False


class _Liar:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._rng = rng = random.Random(target.seed)
        self._victims = (*target.victims, *target.others)
        sites = list(dict.fromkeys(victim.site for victim in self._victims))
        members = [Address(bytes.fromhex(victim.uuid)) for victim in self._victims]
        self._lies = Lies(rng, LIAR, sites, lambda: members, self._aim)
        self._links: dict[Victim, _Link] = {}
        self._account = AttackReport().begin()
        self._closed = self._received_bytes = 0
        self._context = client_context(target.keys)

    def run(self) -> AttackReport:
        began = time.monotonic()
        while time.monotonic() < began + self._target.seconds:
            for victim in self._victims:
                if victim not in self._links and (link := self._dial(victim)) is not None:
                    self._links[victim] = link
            for victim, link in list(self._links.items()):
                try:
                    self._converse(link)
                except (OSError, ProtocolError):
                    del self._links[victim]
                    link.sock.close()
                    self._closed += 1
            time.sleep(PAUSE_S)
        closed = f"Of {self._lies.links} links {self._closed} were closed"
        self._account.tell(f"{closed}; {self._received_bytes:,} bytes came over them.")
        return self._account.end()

    def _dial(self, victim: Victim) -> _Link | None:
        """Return a link to this member, if it is the relay."""
        try:
            plain = socket.create_connection((victim.host, victim.bridge_port), _PATIENCE_S, (self._target.source, 0))
            sock = self._context.wrap_socket(plain)
            sock.sendall(encode(self._lies.hello()) + encode(State({})))
        except OSError:
            return None
        return _Link(sock, victim, self._rng.random() < 0.5)

    def _converse(self, link: _Link) -> None:
        """Read the frames of the relay, and send some. Raises OSError once the relay has closed the link."""
        for data in _received(link.sock):
            self._received_bytes += len(data)
            self._lies.keep(link.parser, data)
        frames = [self._lies.frame() for _ in range(self._rng.randrange(FRAMES_MAX))]
        said = [frame for frame in frames if link.may_say(frame)]
        link.sock.settimeout(_PATIENCE_S)
        link.sock.sendall(b"".join([encode(frame) for frame in said]))
        for frame in said:
            self._account.sent[type(frame).__name__] += 1
        if self._rng.random() < ENDED:
            raise ConnectionAbortedError

    def _aim(self) -> Header | None:
        """Return the next message of an honest member, forged, directly or in a piece of an invented route."""
        heard = [frame.batch for frame in self._lies.kept if isinstance(frame, Data)]
        if not heard:
            return None
        rng, last = self._rng, self._rng.choice(heard)
        number = last.first + last.count
        forged = Data((last.site,), Batch(last.site, last.origin, Scope.ALL, number, 1, pack_body([b"forged"])))
        if rng.random() < 0.2:
            return forged
        source, visited = rng.choice([(LIAR, ()), (last.site, (LIAR,))])
        opener = Address(bytes.fromhex(rng.choice(self._victims).uuid))
        target = rng.choice(self._victims).site
        return Routed(
            source, target, rng.choice([self._lies.me, opener]), rng.randrange(1, 4), 0, visited, False, encode(forged)
        )


def _received(sock: ssl.SSLSocket) -> Iterator[bytes]:
    """Yield what has arrived. Raises OSError at the end of the connection."""
    sock.settimeout(0.0)
    with suppress(ssl.SSLWantReadError, BlockingIOError):
        for _ in range(_READS_MAX):
            if not (data := sock.recv(_READ_BYTES)):
                raise ConnectionResetError
            yield data


def attack(target: Target) -> AttackReport:
    return _Liar(target).run()
