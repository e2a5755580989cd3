"""Zenoh as a peer: sessions that are connected each with each; between two sites through a router in each, one of the members.

Publishers wait when a subscriber is slow (`CongestionControl.BLOCK`). The sessions find each other by address, not by scouting.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import zenoh

from relay_lab.bench.peers.task import ANSWER, PeerTask

_ALL, _QUESTIONS, _ANSWERS = "bench/all", "bench/question", "bench/answer"


def connect(task: PeerTask, take: Callable[[bytes], None]) -> _Session:
    """Return the session of a member. Ports: one for each member of one site, or for the router of each of two sites."""
    return _Session(task, take)


class _Session:
    def __init__(self, task: PeerTask, take: Callable[[bytes], None]) -> None:
        self._session = session = zenoh.open(_configuration(task))
        self._publisher = session.declare_publisher(_ALL, congestion_control=zenoh.CongestionControl.BLOCK)
        self._questions = session.declare_publisher(_QUESTIONS, congestion_control=zenoh.CongestionControl.BLOCK, express=True)
        self._kept = [session.declare_subscriber(_ALL, lambda sample: take(sample.payload.to_bytes()))]
        answers = session.declare_publisher(_ANSWERS, congestion_control=zenoh.CongestionControl.BLOCK, express=True)

        def answer(sample: zenoh.Sample) -> None:
            question = sample.payload.to_bytes()
            if task.index == task.answerer:
                answers.put(ANSWER + question[1:])

        # Inside a site one member receives questions. Across sites all receive them and one
        # answers.
        if task.trips and (task.work == "relay" or task.index == task.answerer):
            self._kept.append(session.declare_subscriber(_QUESTIONS, answer))
        self._answers = session.declare_subscriber(_ANSWERS) if task.trips and task.index == task.asker else None
        self.send = self._publisher.put

    def ask(self, question: bytes) -> bytes:
        assert self._answers is not None
        self._questions.put(question)
        return bytes(self._answers.recv().payload.to_bytes())


def _configuration(task: PeerTask) -> zenoh.Config:
    mode, listens, calls = "peer", [task.ports[task.index % len(task.ports)]], list(task.ports[: task.index])
    if task.work == "relay":
        mode = "router" if task.relays else "client"
        listens = [task.ports[task.site]] if task.relays else []
        calls = [task.ports[0]] if task.relays and task.site == 1 else [task.ports[task.site]] if not task.relays else []
    config = zenoh.Config()
    for key, value in {
        "mode": mode,
        "listen/endpoints": [_at(port) for port in listens],
        "connect/endpoints": [_at(port) for port in calls],
        "scouting/multicast/enabled": False,
    }.items():
        config.insert_json5(key, json.dumps(value))
    return config


def _at(port: int) -> str:
    return f"tcp/127.0.0.1:{port}"
