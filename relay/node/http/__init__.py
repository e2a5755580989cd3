"""HTTP server of a node: health, status, metrics, events, messages. Loopback by default (C23)."""
