"""`python -m tests.bench` runs all benchmarks; `read`, `compact`, `small`, `storage` or `worker` runs one."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from tests.bench import bench_compact, bench_read, bench_small, bench_storage, bench_worker

    chosen, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    sys.argv[1:] = rest
    if chosen in ("", "read"):
        bench_read.main()
    if chosen in ("", "compact"):
        bench_compact.main(rest)
    if chosen in ("", "small"):
        bench_small.main(rest)
    if chosen in ("", "storage"):
        bench_storage.main(rest)
    if chosen in ("", "worker"):
        bench_worker.main(rest)
