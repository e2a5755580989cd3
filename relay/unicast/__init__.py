"""Messages to one member of another site: sender, receiver, and the hops between them."""
