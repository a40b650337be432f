"""Hive types and schemas, the text of values, and digests of rows."""
