"""Starts the attacker for a drill and waits for its report; as a program, carries out the attack of a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from relay_lab.drills.executor import PlaceFailed
from relay_lab.drills.hostile import bridge, datagrams, liar
from relay_lab.drills.hostile.target import AttackReport, Target, parse_report, parse_target
from relay_lab.drills.plan import DATAGRAM_ATTACKS
from relay_lab.drills.tether import tie

#: Seconds beyond its own time after which an attacker has hung.
_GRACE_S = 60.0


async def run_attack(target: Target, file: Path, enter: Sequence[str]) -> AttackReport:
    """Carry out an attack in a separate process; `enter` is the command prefix for its network. Raises PlaceFailed.

    The process ends on cancellation.
    """
    await trio.Path(file).write_text(target.to_json(), encoding="utf-8")
    command = tie([*enter, sys.executable, "-m", "relay_lab.drills.hostile.attack", str(file)])
    with trio.move_on_after(target.seconds + _GRACE_S):
        done = await trio.run_process(command, check=False, capture_stdout=True, capture_stderr=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())[-500:]
            raise PlaceFailed(f"The attacker failed ({target.attack}): {said}")
        return parse_report(done.stdout.decode())
    raise PlaceFailed(f"The attacker did not end in time ({target.attack}).")


def main(file: Path) -> None:
    target = parse_target(file.read_text(encoding="utf-8"))
    attack = datagrams.attack if target.attack in DATAGRAM_ATTACKS else {"lie": liar.attack}.get(target.attack, bridge.attack)
    print(attack(target).to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
