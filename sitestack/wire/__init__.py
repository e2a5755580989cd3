"""Bytes on the wire: the codec, the schemas of headers, and bounds of their sizes."""
