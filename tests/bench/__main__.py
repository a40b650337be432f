"""`PYTHONPATH=tests python -m bench` runs all benchmarks."""

from __future__ import annotations

from bench.bench_read import main

main()
