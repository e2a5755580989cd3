"""Wires between members on this machine, which are harmed as real ones: by the kernel, packet by packet."""

from relay_lab.drills.wires.switch import Wires, has_wires, open_wires

__all__ = ["Wires", "has_wires", "open_wires"]
