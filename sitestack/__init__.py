"""Group communication inside one site: membership, reliable ordered multicast, reliable unicast."""
