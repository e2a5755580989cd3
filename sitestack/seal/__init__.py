"""The seal: every datagram of a site is encrypted and authenticated with the site's key, and opens once. Pure."""
