"""Tests beside a running Hive: what it answers and what acidctl answers, on tables made at random."""
