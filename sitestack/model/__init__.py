"""The nouns: addresses, messages, views, frames, events, errors.

Pure values that every layer uses.
"""
