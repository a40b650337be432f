"""Any text after --where is a condition or one sentence: damaged conditions, on rows and on statistics."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

import numpy as np
import pytest

from acidctl.errors import UsageError
from acidctl.format.events import EventKeys
from acidctl.rows.conditions import mask
from acidctl.rows.predicate import parse
from acidctl.rows.stripes import _Facts, outcomes
from tests.support.condition_rows import FIELDS, arrays, random_condition
from tests.support.extent import amount

SEEDS, CASES = amount(4, swept=100), 2_000
COLUMNS = dict(enumerate(arrays()))
KEYS = EventKeys(np.full(12, 1), np.full(12, 536870912), np.arange(12), np.full(12, 1))
WORDS = [
    *(
        "'",
        '"',
        "`",
        "\\",
        "\\u",
        "\\ud83d",
        "\\377",
        "%",
        "_",
        "(",
        ")",
        ",",
        ".",
        "-",
        "+",
        "e",
        "E5",
        "BD",
        "L",
        "D",
    ),
    *("0", "9" * 5000, " ", "\n", "--", "\0", "\u202e", "é", "\ud800", "\udcff", "😀", "٣", "²", "1e1000000000BD"),
    *("NULL", " or ", " and ", " not ", "<=>", " between ", " in (", " like ", "DATE '", "TIMESTAMP ", "ROW__ID."),
]


def damaged(random: Random) -> str:
    """A condition with some pieces put in, taken out, or repeated."""
    text = random_condition(random)
    for _ in range(random.randint(0, 4)):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.randint(0, 3))
        text = text[:start] + random.choice(WORDS) * random.choice([0, 1, 1, 2, 40]) + text[end:]
    return text


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_damaged_condition(seed: int) -> None:
    """No other error than ours, no case of a second, and statistics never exclude what rows match."""
    random, conditions = Random(seed), 0
    for _ in range(CASES):
        text, started = damaged(random), time.process_time()
        with suppress(UsageError):
            root = parse(text, FIELDS).root
            rows = mask(root, COLUMNS, KEYS, 12)
            if rows is None or rows.any():
                assert True in outcomes(root, lambda _: _Facts()), ascii(text)
            conditions += 1
        assert time.process_time() - started < 2, ascii(text)
    assert conditions > CASES // 10
