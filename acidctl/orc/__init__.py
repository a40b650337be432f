"""ORC files: bytes to event batches; given open files, never paths."""
