"""Storage adapters: the only place that knows a URL scheme."""
