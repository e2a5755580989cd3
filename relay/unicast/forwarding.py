"""The way of a unicast: origin -> relay -> bridge -> relay -> target, and of its reply (REL-9,
REL-10).

Each step is one call that depends on whether this member relays. Relays store nothing: the origin
keeps a unicast until the target acknowledges it. A failed step is refused or runs into its timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from relay.events import Unreachable
from relay.gateway.gateway import Gateway
from relay.gateway.wire import RemoteUnicast
from relay.replica.entries import DeliverUnicast, ForwardUnicast, UnicastRefusal, UnicastReply
from relay.replica.state import ReplicatedState
from relay.unicast.config import RemoteUnicastConfig
from relay.unicast.receiver import UnicastReceiver
from relay.unicast.sender import Step, UnicastSender
from sitestack.journal.recorder import own_unicasts
from sitestack.model.address import ProxyUUID
from sitestack.model.events import Undeliverable
from sitestack.model.frame import Frame
from sitestack.model.message import Batch
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up

#: Seconds for which an acknowledgement waits for others; its origin waits `retry_s` for it.
REPLY_DELAY_S = 0.02
#: Number of senders with waiting acknowledgements at which all are sent.
REPLIES_MAX = 256


class UnicastRoutes:
    def __init__(self, local: Local, config: RemoteUnicastConfig, state: ReplicatedState, gateway: Gateway) -> None:
        self.sender = UnicastSender(config)
        self.receiver = UnicastReceiver(local.site, local.address)
        self._site = local.site
        self._me = local.address
        self._state = state
        self._gateway = gateway
        #: Time (s) at which `acknowledge` must be called; None without waiting acknowledgements.
        self.reply_due: float | None = None

    def send(self, frame: Frame, dest: ProxyUUID, now: float) -> list[Effect]:
        """RELAY.down(msg), forwardToCoord(msg): send a batch of this member to a member of any site."""
        assert frame.batch is not None
        if dest.site == self._site:
            return [Down(Frame(frame.source, dest.original, frame.headers, frame.batch))]
        steps = self.sender.send(dest, frame.batch, now)
        dropped = [Dropped("relay_unicast_pending_full") for step in steps if isinstance(step, Unreachable)]
        return [*dropped, *self._carry_out(steps, now)]

    def relay_changed(self, now: float) -> list[Effect]:
        """Forward waiting unicasts to the new relay of this site."""
        return self._carry_out(self.sender.again(now), now)

    def expire(self, now: float) -> list[Effect]:
        return self._carry_out(self.sender.expire(now), now)

    def leave(self, now: float) -> list[Effect]:
        """Report every unanswered unicast as unreachable, since this member leaves (X10)."""
        return self._carry_out(self.sender.abandon(), now)

    def undeliverable(self, event: Undeliverable, now: float) -> list[Effect]:
        """Report this member's unacknowledged unicasts inside its site like those to another site."""
        return [Up(Unreachable.unacknowledged(batch)) for batch in own_unicasts(event, self._site, self._me)]

    def _carry_out(self, steps: Sequence[Step], now: float) -> list[Effect]:
        """RELAY's forwardToCoord: forward to the relay, or onto the bridge if this member relays."""
        effects: list[Effect] = []
        failures: list[Effect] = []
        waiting = deque(steps)
        while waiting:
            step = waiting.popleft()
            if isinstance(step, Unreachable):
                failures.append(Up(step))
                continue
            relay = self._state.relay
            if relay is not None and relay != self._me:
                header = ForwardUnicast(step.after, step.attempt)
                effects.append(Down(Frame(self._me, relay, (header,), step.batch)))
                continue
            refusal = self._send(step) if self._gateway.active else UnicastRefusal.NOT_RELAY
            if refusal is not None:
                effects += _count(refusal)
                waiting += self.sender.handle_reply(_refusal(step, refusal), now)
        return [*effects, *failures]

    def up(self, frame: Frame, now: float) -> list[Effect]:
        match frame.headers[-1]:
            case ForwardUnicast() as header:
                return self._relay(frame, header)
            case DeliverUnicast(after):
                return self._deliver(after, frame.batch)
            case reply:
                assert isinstance(reply, UnicastReply), "a header that this layer did not ask for"
                return self._reply(reply, now)

    def _relay(self, frame: Frame, header: ForwardUnicast) -> list[Effect]:
        """Forward a member's unicast to another site; a refusal is answered, not silent (R16, REL-27)."""
        batch = frame.batch
        if batch is None or batch.target is None or (batch.site, batch.origin) != (self._site, frame.source):
            return [Dropped("relay_malformed")]
        unicast = RemoteUnicast(header.after, header.attempt, batch)
        refusal = self._send(unicast) if self._gateway.active else UnicastRefusal.NOT_RELAY
        if refusal is None:
            return []
        return [*_count(refusal), Down(Frame(self._me, frame.source, (_refusal(unicast, refusal),)))]

    def _send(self, unicast: RemoteUnicast) -> UnicastRefusal | None:
        batch = unicast.batch
        assert batch.target is not None
        return self._gateway.table.send_unicast(batch.target_site, batch.target, unicast)

    def arrived(self, frame: RemoteUnicast | UnicastReply, now: float) -> list[Effect]:
        """RELAY's putOnLocalCluster(M): handle a unicast or reply from the bridge, for any member."""
        if isinstance(frame, UnicastReply):
            return self._reply(frame, now)
        batch = frame.batch
        assert batch.target is not None, "else the link was closed"
        if batch.target == self._me:
            return self._deliver(frame.after, batch)
        view = self._state.view
        if view is None or view.rank(batch.target) < 0:
            return self._reply(_refusal(frame, UnicastRefusal.NO_MEMBER), now)
        return [Down(Frame(self._me, batch.target, (DeliverUnicast(frame.after, frame.attempt),), batch))]

    def _deliver(self, after: int, batch: Batch | None) -> list[Effect]:
        """Deliver a unicast to this member; its source is a proxy of the origin (REL-10)."""
        if batch is None or batch.target != self._me or self._state.view is None:
            return [Dropped("relay_malformed")]
        if not self.receiver.receive(after, batch):
            return [Dropped("relay_unicast_again")]
        source = ProxyUUID(batch.origin, batch.site, self._state.view.coordinator)
        return [Up(Frame(source, self._me, (), batch))]

    def acknowledge(self, now: float, *, at_once: bool = False) -> list[Effect]:
        """Acknowledge each sender's deliveries, if due or for many senders."""
        owed = len(self.receiver.owed)
        if not owed:
            return []
        if self.reply_due is None:
            self.reply_due = now + REPLY_DELAY_S
        if now < self.reply_due and owed < REPLIES_MAX and not at_once:
            return []
        self.reply_due = None
        return [effect for reply in self.receiver.take_replies() for effect in self._reply(reply, now)]

    def _reply(self, reply: UnicastReply, now: float) -> list[Effect]:
        view, relaying = self._state.view, self._gateway.active
        if reply.site == self._site and reply.origin == self._me:
            remote = self._state.remotes.get(reply.target_site)
            if reply.refusal is UnicastRefusal.NO_MEMBER and remote is not None and remote.lineages_of(reply.target):
                reply = replace(reply, refusal=UnicastRefusal.OTHER_PART)
            return self._carry_out(self.sender.handle_reply(reply, now), now)
        if view is None:
            return [Dropped("relay_reply_no_relay")]
        if reply.site == self._site and relaying and view.rank(reply.origin) >= 0:
            return [Down(Frame(self._me, reply.origin, (reply,)))]
        if reply.site != self._site and relaying:
            refusal = self._gateway.table.send_unicast(reply.site, reply.origin, reply)
            return [] if refusal is None else [Dropped(f"relay_reply_{refusal}")]
        if reply.target == self._me and view.coordinator != self._me:
            return [Down(Frame(self._me, view.coordinator, (reply,)))]
        return [Dropped("relay_reply_no_relay")]


def _count(refusal: UnicastRefusal) -> list[Effect]:
    """Count refusals for lack of room as drops. Without a link, the origin just waits."""
    counted = refusal in (UnicastRefusal.QUEUE_FULL, UnicastRefusal.TOO_LARGE)
    return [Dropped(f"relay_unicast_{refusal}")] if counted else []


def _refusal(unicast: RemoteUnicast, refusal: UnicastRefusal) -> UnicastReply:
    batch = unicast.batch
    assert batch.target is not None
    return UnicastReply(batch.site, batch.origin, batch.target_site, batch.target, batch.last, unicast.attempt, refusal)
