"""`python -m tests.bench` measures what docs/performance.md shows, and draws it; with the name of a piece only that.

`compact`, `memory`, `stripes`, `read`, `spark`, `where` and `cluster` add to a JSON file (`--json`), each as soon as it
is measured, and `show` prints and draws what is there; `small`, `storage` and `worker` print only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

if __name__ == "__main__":
    from tests.bench import bench_cluster, bench_compact, bench_read, bench_small, bench_storage, bench_worker, results

    pieces: dict[str, Callable[[list[str]], None]] = {
        "compact": bench_compact.main,
        "memory": partial(bench_compact.main, piece="memory"),
        "read": bench_read.main,
        "stripes": bench_read.stripes,
        "spark": bench_read.spark,
        "where": bench_read.where,
        "cluster": bench_cluster.main,
        "show": results.main,
        "small": bench_small.main,
        "storage": bench_storage.main,
        "worker": bench_worker.main,
    }
    given = sys.argv[1:]
    chosen, rest = (given[0], given[1:]) if given and not given[0].startswith("-") else ("", given)
    if chosen and chosen not in pieces:
        raise SystemExit(f"unknown piece {chosen}; expected one of {', '.join(pieces)}")
    if chosen:
        pieces[chosen](rest)
    else:
        pieces["compact"](rest)
        # Reading is compared at a million rows, whatever is compacted, and memory at several sizes.
        for name in ("memory", "read", "stripes", "show"):
            pieces[name]([])
