"""The journal: its records, and the recorder that makes them from events."""
