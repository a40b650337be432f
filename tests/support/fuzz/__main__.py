"""Seeded fuzz cases over files, tables, leftovers, lists, conditions and plans: `python -m tests.support.fuzz`.

Cases run in worker processes that their parent watches: one that dies, hangs or takes too much memory is a finding
too. A finding is printed with what reproduces it, and its folder is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.support.fuzz.pool import KINDS, SHARES, Run


def main() -> int:
    """0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="how many in all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these; repeatable")
    parser.add_argument("--only", type=int, metavar="N", help="one case of a kind again")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("/tmp/acidctl-fuzz"), help="where findings are kept")
    parser.add_argument("--stop-after", type=int, default=1000, metavar="N", help="end after so many findings")
    args = parser.parse_args()
    kinds = args.kind or list(KINDS)
    run = Run(args.seed, args.keep, workers=args.workers, stop_after=args.stop_after, report=print)
    if args.only is not None:
        run.cases([(kinds[0], args.only)])
    else:
        whole = sum(SHARES[kind] for kind in kinds)
        for kind in kinds:
            run.cases([(kind, number) for number in range(args.cases * SHARES[kind] // whole)])
    print(json.dumps(run.summary(), indent=1))
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
