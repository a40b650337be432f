"""Rows written to files of other systems: the forms of files, where they go, how they are checked and published."""
