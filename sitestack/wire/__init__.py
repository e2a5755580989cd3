"""What goes over a wire as bytes: the codec, the schemas of headers, and how long a frame gets."""
