"""Stands at the root so that pytest knows our options whatever its arguments are."""

pytest_plugins = ["pytester", "tests.conformance.plugin"]
