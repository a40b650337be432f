"""Data files without ACID columns that are not ORC: what insert-only tables hold as Parquet and as text."""
