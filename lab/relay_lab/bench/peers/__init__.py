"""Other systems that do the work of a benchmark. Users install the ones to compare with; a node needs none."""
