"""Gossip router: a directory of a site's members, and a relay for unconnectable ones."""
