"""Tests of path MTU discovery."""
