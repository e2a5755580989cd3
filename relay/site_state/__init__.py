"""The application's state across sites: a late or long-disconnected site fetches another site's state."""
