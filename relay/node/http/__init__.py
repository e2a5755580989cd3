"""The HTTP door of a node: health, status and metrics. Loopback unless the configuration says otherwise (C23)."""
