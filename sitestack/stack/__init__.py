"""The contract of a layer, and the stack that walks effects from layer to layer."""
