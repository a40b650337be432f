"""Tables by name: a live metastore over Thrift, its lists, transactions, locks and compaction queue."""
