"""The compiled modules behave as their source does: the same tests, and the same traces."""
