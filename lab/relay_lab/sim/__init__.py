"""A simulated world: virtual time, a network with faults, processes, and scripts that tell stories with them."""
