"""Hive's compaction queue served: requests taken, carried out under their own transactions, and marked."""
