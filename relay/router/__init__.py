"""The gossip router: where members of a site find each other, and by which those talk that nobody can connect to."""
