"""The demo: two sites on this machine relay a real file both ways."""

from relay.instruments.demo.table import demo_table
from relay.instruments.demo.text import default_text, read_lines

__all__ = ["default_text", "demo_table", "read_lines"]
