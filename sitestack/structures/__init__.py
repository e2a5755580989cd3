"""Replicated objects that share a channel with the application, and the lock service of a site."""
