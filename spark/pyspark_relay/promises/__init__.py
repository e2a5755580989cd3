"""The promises over journals of any size: transforms for what depends on every message, the checkers for everything else."""
