"""The contract of a layer, and the stack that passes effects from layer to layer."""
