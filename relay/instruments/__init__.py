"""What proves, measures and disturbs the product, and is no part of a node: simulation, drills, benchmarks, demo, analytics."""
