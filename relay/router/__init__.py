"""The gossip router: where members of a site find each other, and what carries datagrams when nobody can connect to them."""
