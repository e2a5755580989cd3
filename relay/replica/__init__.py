"""The replicated knowledge about relaying.

Fed by the stream alone, so equal at all members of a site.
"""
