"""Names, lists, listings and events: what the words and numbers of the format mean."""
