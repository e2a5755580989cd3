"""Promises over journals of any size, judged by Spark transforms and by the checkers."""
