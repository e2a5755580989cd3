"""The key directory: what each site and the authority keep secret, in files that only their owner can read."""
