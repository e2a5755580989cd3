"""Soaks: long runs with harm of every kind at random, of which the memory of those who live long is measured."""
