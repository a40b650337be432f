"""What compact and clean share: lock, owner, work directory, time limit, run log."""
