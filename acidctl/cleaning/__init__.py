"""Cleaning: what no reader can reach any more, and its removal."""
