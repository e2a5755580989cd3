"""ZeroMQ as a peer: every member subscribes to all members; a forwarder in each site connects two sites.

No message is dropped: a publisher at its high-water mark waits (`XPUB_NODROP`). A forwarder has one
queue for each direction, so no message is sent back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import zmq

from relay_lab.bench.peers.task import ANSWER, DATA, LOST_S, PROBE, QUESTION, PeerTask

_QUEUED_MAX = 10_000


def connect(task: PeerTask, take: Callable[[bytes], None]) -> _Sockets:
    """Return the sockets of a member. Ports: a publisher and a router for each member of one site;
    four for each of two sites.
    """
    return _Sockets(task, take)


class _Sockets:
    def __init__(self, task: PeerTask, take: Callable[[bytes], None]) -> None:
        self._turn = threading.Lock()
        self._context = zmq.Context()
        self._publisher = _publisher(self._context)
        subscriber = self._socket(zmq.SUB)
        topics = [DATA, PROBE]
        if task.work == "relay":
            own, other = task.ports[4 * task.site :][:4], task.ports[4 * (1 - task.site) :][:4]
            if task.relays:
                self._forward(_at(own[0]), _at(own[1]), bind_in=True)
                self._forward(f"{_at(other[1])}", _at(own[2]), bind_in=False)
            self._publisher.connect(_at(own[0]))
            sources = [_at(own[1]), _at(own[2])]
            if task.trips:
                topics.append(QUESTION)
            self._asking = self._listen(zmq.SUB, sources)
            if task.index == task.asker:  # unread answers would block the forwarders after some ten thousand
                self._asking.setsockopt(zmq.SUBSCRIBE, ANSWER)
        else:
            self._publisher.bind(_at(task.ports[task.index]))
            sources = [_at(port) for port in task.ports[: task.members]]
            router = _at(task.ports[task.members])
            if task.index == task.answerer:
                self._answer_at(router)
            self._asking = self._listen(zmq.DEALER, [router])
        for topic in topics:
            subscriber.setsockopt(zmq.SUBSCRIBE, topic)
        for source in sources:
            subscriber.connect(source)
        self.send = self._send_alone if task.trips else self._publisher.send
        self._crosses = task.work == "relay"
        self._answers = task.index == task.answerer
        threading.Thread(target=self._receive, args=(subscriber, take), daemon=True).start()

    def ask(self, question: bytes) -> bytes:
        if self._crosses:
            self.send(question)
        else:
            self._asking.send(question)
        if not self._asking.poll(int(LOST_S * 1000)):
            raise RuntimeError("a question was not answered")
        return bytes(self._asking.recv())

    def _receive(self, subscriber: zmq.Socket[bytes], take: Callable[[bytes], None]) -> None:
        while True:
            payload = subscriber.recv()
            if self._answers and payload[:1] == QUESTION:
                self.send(ANSWER + payload[1:])
            else:
                take(payload)

    def _send_alone(self, payload: bytes) -> None:
        """The first question may come while this member still probes, and a socket belongs to one thread at a time."""
        with self._turn:
            self._publisher.send(payload)

    def _answer_at(self, place: str) -> None:
        router = self._socket(zmq.ROUTER)
        router.bind(place)

        def answer() -> None:
            while True:
                asker, question = router.recv_multipart()
                router.send_multipart((asker, ANSWER + question[1:]))

        threading.Thread(target=answer, daemon=True).start()

    def _forward(self, source: str, sink: str, *, bind_in: bool) -> None:
        """A queue from publishers to subscribers, in a thread that runs no Python."""
        incoming, outgoing = self._socket(zmq.XSUB), _publisher(self._context, zmq.XPUB)
        (incoming.bind if bind_in else incoming.connect)(source)
        outgoing.bind(sink)
        threading.Thread(target=zmq.proxy, args=(incoming, outgoing), daemon=True).start()

    def _listen(self, kind: int, places: list[str]) -> zmq.Socket[bytes]:
        sock = self._socket(kind)
        for place in places:
            sock.connect(place)
        return sock

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        return _limited(self._context.socket(kind))


def _publisher(context: zmq.Context[zmq.Socket[bytes]], kind: int = zmq.PUB) -> zmq.Socket[bytes]:
    sock = _limited(context.socket(kind))
    sock.setsockopt(zmq.XPUB_NODROP, 1)
    return sock


def _limited(sock: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    for option in (zmq.SNDHWM, zmq.RCVHWM):
        sock.setsockopt(option, _QUEUED_MAX)
    sock.setsockopt(zmq.LINGER, 0)
    return sock


def _at(port: int) -> str:
    return f"tcp://127.0.0.1:{port}"
