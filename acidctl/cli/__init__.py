"""The command line: options, rendering, and nothing that decides."""
