"""Other systems that do the work of a benchmark, each installed by whoever wants to compare. Nothing here is part of a node."""
