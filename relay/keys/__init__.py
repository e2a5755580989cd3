"""The key directory: secrets of the sites and the authority, in files only for their owner."""
