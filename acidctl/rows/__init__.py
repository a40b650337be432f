"""The files of a location become the rows that a reader sees."""
