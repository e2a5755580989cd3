"""Replicated objects over a channel: a map across sites, and locks and leaders of a site."""
