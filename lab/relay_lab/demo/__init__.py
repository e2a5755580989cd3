"""The demo: two sites on this machine relay a real file both ways."""

from relay_lab.demo.table import demo_table
from relay_lab.demo.text import default_text, read_lines

__all__ = ["default_text", "demo_table", "read_lines"]
