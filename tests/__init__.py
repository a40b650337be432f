"""Tests and what they share: a package, so that each module has one name, and `tests` of another path stays out."""
