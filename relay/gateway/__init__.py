"""The coordinator's part towards other sites: links, traffic on them, acknowledgements."""
