"""The seal: encrypts and authenticates every datagram with the site's key, and opens it once. Pure."""
