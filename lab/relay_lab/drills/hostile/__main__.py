"""The attacker: `python -m relay_lab.drills.hostile TARGET`, where TARGET is a file that a drill has written.

Prints its report as one line of JSON.
"""

from __future__ import annotations

import sys
from pathlib import Path

from relay_lab.drills.hostile import bridge, datagrams
from relay_lab.drills.hostile.target import parse_target
from relay_lab.drills.plan import DATAGRAM_ATTACKS


def main(file: Path) -> None:
    """Carry out the attack that the file describes."""
    target = parse_target(file.read_text(encoding="utf-8"))
    attack = datagrams.attack if target.attack in DATAGRAM_ATTACKS else bridge.attack
    print(attack(target).to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
