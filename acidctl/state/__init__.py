"""A listing and a reader become what is read, what is not, and why."""
