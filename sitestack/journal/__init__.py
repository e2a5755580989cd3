"""What a member writes down: the records of a journal, and the recorder that makes them from events."""
