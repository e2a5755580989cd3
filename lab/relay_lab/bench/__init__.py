"""Benchmarks: real processes on this machine, through the public library, measured from inside."""
