"""Compacting: plan, tasks, verification, publishing, recovery."""
