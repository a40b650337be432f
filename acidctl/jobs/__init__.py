"""Carrying out plans: the folder that changes tables."""
