"""Text from other processes, made safe to print (C25)."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Return the text with all unprintable characters escaped, line ends included."""
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in text])
