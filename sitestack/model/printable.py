"""Text that others wrote, for people: to a terminal some characters are orders, and a line end makes another log line (C25)."""

from __future__ import annotations


def escaped(text: str) -> str:
    """The text with everything escaped that cannot be printed, line ends included."""
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in text])
