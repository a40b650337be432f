"""What benchmarks measured, kept in one JSON file: added to piece by piece, shown as a table and drawn as a chart."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from xml.sax.saxutils import escape

#: What is committed, beside the chart that is made from it.
DEFAULT = Path(__file__).parents[2] / "docs" / "benchmarks.json"


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of one thing that was measured; `memory` are MiB of the largest process, where known.

    `piece` and `case` say on what (rows, and which change was made to them), `what` which program.
    """

    piece: str
    case: str
    rows: int
    what: str
    seconds: tuple[float, ...]
    memory: float | None = None

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What a later measurement replaces."""
        return self.piece, self.case, self.rows, self.what

    @property
    def middle(self) -> float:
        """The median of the rounds."""
        return median(self.seconds)


def seconds_in_turn(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each call, all in turn: noise of the machine falls on all alike."""
    seconds: dict[str, list[float]] = {what: [] for what in actions}
    for _ in range(rounds):
        for what, action in actions.items():
            start = time.perf_counter()
            action()
            seconds[what].append(time.perf_counter() - start)
    return seconds


def machine() -> dict[str, str]:
    """The machine in general terms."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{size:.0f} GiB",
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def load(path: Path) -> list[Result]:
    """What a file holds; nothing where there is none."""
    if not path.exists():
        return []
    return [Result(**{**one, "seconds": tuple(one["seconds"])}) for one in json.loads(path.read_text())["results"]]


def add(path: Path, found: Sequence[Result]) -> None:
    """Keep these, in place of what was measured of the same before."""
    new = {one.key for one in found}
    kept = [one for one in load(path) if one.key not in new]
    rounded = [
        {
            **asdict(one),
            "seconds": [round(second, 3) for second in one.seconds],
            "memory": one.memory and round(one.memory),
        }
        for one in (*kept, *found)
    ]
    path.write_text(json.dumps({"machine": machine(), "results": rounded}, indent=1) + "\n")


def groups(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    """What was measured on the same data, with a title, in the order of the file."""
    titles = dict.fromkeys((one.piece, one.case, one.rows) for one in results)
    for piece, case, rows in titles:
        own = [one for one in results if (one.piece, one.case, one.rows) == (piece, case, rows)]
        yield f"{piece}, {case}, {rows:,} rows", own


def table(results: Sequence[Result]) -> Iterator[str]:
    """Lines of text: medians, least and greatest, and how many times as long as the first line each took."""
    for title, own in groups(results):
        yield title
        for one in own:
            memory = "" if one.memory is None else f"{one.memory:6.0f} MiB"
            spread = f"{min(one.seconds):.2f} to {max(one.seconds):.2f}"
            yield f"  {one.what:24} {one.middle:8.2f} s  {spread:>16}  {one.middle / own[0].middle:6.2f} x  {memory}"
        yield ""


# --- The chart: bars of medians with a line from the least to the greatest, one block for each group.

_WIDTH, _LEFT, _RIGHT, _BAR, _GAP, _HEAD = 760, 190, 90, 16, 6, 30
_OWN, _OTHER = "#2a6f97", "#b0b7bd"


def chart(results: Sequence[Result]) -> str:
    """An SVG."""
    parts: list[str] = []
    at = 10
    for title, own in groups(results):
        longest = max(max(one.seconds) for one in own)
        scale = (_WIDTH - _LEFT - _RIGHT) / longest
        parts.append(f'<text x="10" y="{at + 16}" class="h">{escape(title)}</text>')
        at += _HEAD
        for one in own:
            ours = one.what.startswith("acidctl")
            middle, low, high = (_LEFT + scale * s for s in (one.middle, min(one.seconds), max(one.seconds)))
            line = at + _BAR / 2
            parts += [
                f'<text x="{_LEFT - 8}" y="{at + 12}" text-anchor="end">{escape(one.what)}</text>',
                f'<rect x="{_LEFT}" y="{at}" width="{middle - _LEFT:.1f}" height="{_BAR}" '
                f'fill="{_OWN if ours else _OTHER}"/>',
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{line}" y2="{line}" stroke="#000"/>',
                f'<text x="{high + 6:.1f}" y="{at + 12}">{one.middle:.2f} s</text>',
            ]
            at += _BAR + _GAP
        at += 14
    style = "text{font:12px sans-serif;fill:#222}.h{font-weight:bold}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{at}" viewBox="0 0 {_WIDTH} {at}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def shown(results: Sequence[Result]) -> list[Result]:
    """Those of which the time is the point."""
    return [one for one in results if one.piece != "memory"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what the file holds, and draw it beside it."""
    parser = argparse.ArgumentParser(prog="bench show", description=__doc__)
    parser.add_argument("--json", type=Path, default=DEFAULT)
    options = parser.parse_args(arguments)
    results = load(options.json)
    print("\n".join(table(results)))
    options.json.with_suffix(".svg").write_text(chart(shown(results)))
