"""Conditions on rows: what real Hive answers, a slow model of three-valued logic, and what is refused."""

from __future__ import annotations

import pickle
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidctl.errors import UsageError
from acidctl.format.events import EventKeys, widen
from acidctl.rows.conditions import in_partition, mask
from acidctl.rows.literals import As, day_of, double_of, moment_of
from acidctl.rows.predicate import (
    Among,
    Comparison,
    Constant,
    Every,
    IsNull,
    Like,
    Node,
    Not,
    Op,
    Predicate,
    leaves,
    negated,
    parse,
)
from acidctl.rows.stripes import _Facts
from acidctl.rows.stripes import outcomes as stripe_outcomes
from acidctl.types.hive_types import Field
from acidctl.types.schema import parse_schema
from tests.support.condition_rows import FIELDS, arrays, random_condition

COLUMNS = dict(enumerate(arrays()))
KEYS = EventKeys(np.full(12, 1), np.full(12, 536870912), np.arange(12), np.full(12, 1))
NESTED = parse_schema("id int, date date, `a b` string, l array<int>, st struct<x:int>").columns.fields


def outcomes(text: str) -> str:
    """T, F or N of each row."""
    root = parse(text, FIELDS).root
    true, false = (_rows(node) for node in (root, negated(root)))
    return "".join("T" if one else "F" if other else "N" for one, other in zip(true, false, strict=True))


def _rows(node: Node) -> list[bool]:
    found = mask(node, COLUMNS, KEYS, 12)
    return [True] * 12 if found is None else found.tolist()


# --- real Hive


def hive_answers() -> dict[str, str]:
    """Conditions, and what Hive 4.0.1 answers of each row; `tests/live/test_conditions_hive.py` asks it anew."""
    lines = (Path(__file__).parent / "hive_conditions.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def test_hive_answers_the_same() -> None:
    """A thousand conditions that real Hive has answered: which rows match, and which match the opposite."""
    answers = hive_answers()
    assert len(answers) > 1000
    assert {text: outcomes(text) for text in answers} == answers


# --- a slow model


def value_of(value: Any, as_: As) -> Any:
    """A Python value as it is compared; NaN is above all."""
    if as_ is As.NUMBER:
        return value
    if as_ is As.DOUBLE:
        number = double_of(value) if isinstance(value, str) else float(value)
        return None if number is None else (number != number, 0.0 if number != number else number)
    if as_ is As.BYTES:
        return value.rstrip(" ").encode() if isinstance(value, str) else value
    if as_ is As.DAY:
        return day_of(str(value))
    return value if as_ is As.BOOLEAN else moment_of(str(value))


def model(node: Node, row: dict[int, Any]) -> bool | None:
    """A condition of one row of Python values, by the book."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Not):
        inner = model(node.part, row)
        return None if inner is None else not inner
    if isinstance(node, Comparison | Among | IsNull | Like):
        return _leaf(node, row[node.column.place])
    parts = [model(part, row) for part in node.parts]
    decisive = not isinstance(node, Every)
    return decisive if decisive in parts else None if None in parts else not decisive


def _leaf(leaf: Any, value: Any) -> bool | None:
    if isinstance(leaf, IsNull):
        return value is None
    if value is None:
        return False if isinstance(leaf, Comparison) and leaf.op is Op.SAME else None
    if isinstance(leaf, Like):
        return leaf.regex().fullmatch(value) is not None
    # Moments come as texts, and char has lost its padding.
    text = leaf.as_ is As.BYTES and leaf.column.type.kind.value != "char" and isinstance(value, str)
    own = value.encode() if text else value_of(value, leaf.as_)
    wanted = [(one != one, 0.0 if one != one else one) if leaf.as_ is As.DOUBLE else one for one in _values(leaf)]
    if own is None:
        return False if isinstance(leaf, Comparison) and leaf.op is Op.SAME else None
    if isinstance(leaf, Among):
        return own in wanted
    other = wanted[0]
    answers: dict[Op, bool] = {
        Op.EQUAL: own == other,
        Op.SAME: own == other,
        Op.NOT_EQUAL: own != other,
        Op.LESS: own < other,
        Op.AT_MOST: own <= other,
        Op.GREATER: own > other,
        Op.AT_LEAST: own >= other,
    }
    return answers[leaf.op]


def _values(leaf: Any) -> tuple[Any, ...]:
    return leaf.values if isinstance(leaf, Among) else (leaf.value,)


def test_a_slow_model_agrees() -> None:
    """Two thousand random conditions over every type: the arrays say what a row at a time says."""
    random = Random(17)
    moments = COLUMNS[len(FIELDS) - 1]
    texts = [None if not v.is_valid else str(moments.slice(i, 1)) for i, v in enumerate(moments)]
    assert len(texts) == 12
    python = {place: array.to_pylist() for place, array in COLUMNS.items() if place < len(FIELDS) - 1}
    python[-1] = list(range(12))
    rows = [{place: column[i] for place, column in python.items()} for i in range(12)]
    checked = 0
    for _ in range(2000):
        text = random_condition(random)
        root = parse(text, FIELDS).root
        if any(leaf.column.name == "ts" for leaf in leaves(root)):
            continue  # which Python's datetime cannot hold; Hive's answers above have them
        checked += 1
        assert _rows(root) == [model(root, row) is True for row in rows], text
        assert _rows(negated(root)) == [model(root, row) is False for row in rows], text
    assert checked > 1000


def test_moments_of_both_forms_compare_alike() -> None:
    """Nanoseconds since 1970, and seconds with nanoseconds."""
    stamps = pa.array([0, 1, -1, 1_500_000_000, None], pa.timestamp("ns"))
    fields = (Field("ts", parse_schema("ts timestamp").columns.fields[0].type),)
    for text in ("ts = '1970-01-01 00:00:00.000000001'", "ts < '1970-01-01'", "ts >= '1970-01-01 00:00:01.5'"):
        root = parse(text, fields).root
        one, other = (mask(root, {0: array}, None, 5) for array in (stamps, widen(stamps)))
        assert one is not None
        assert other is not None
        assert one.tolist() == other.tolist()
        assert one.sum() == 1
    zoned = (Field("ts", parse_schema("ts timestamp with local time zone").columns.fields[0].type),)
    root = parse("ts = '1970-01-01 00:00:01.5 UTC'", zoned).root
    found = mask(root, {0: stamps.cast(pa.timestamp("ns", "UTC"))}, None, 5)
    assert found is not None
    assert found.tolist() == [False, False, False, True, False]


def test_nan_and_minus_zero() -> None:
    """NaN is one value above all others, and minus zero is zero, wherever they stand."""
    assert outcomes("d = 'NaN'") == "FFNTFFFFFFFF"
    assert outcomes("d > 'Infinity'") == "FFNTFFFFFFFF"
    assert outcomes("d in (0.0, 5.5)") == "FTNFFFFFFTFF"
    assert outcomes("d = -0.0 or d = 1") == "TTNFFFFFFFFF"


# --- what is bound


def test_names_and_what_is_read() -> None:
    """Names ignore case, quotes take any; a predicate knows its columns and survives a pickle."""
    predicate = parse("`A B` = 'x' or ID > 1 and ROW__ID.rowid < 3 or date < DATE '2020-01-01'", NESTED)
    assert predicate.reads() == (0, 1, 2)
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    assert parse("l is null or st is not null", NESTED).reads() == (3, 4)


def test_partition_values_decide() -> None:
    """With the values of a partition a condition is one of the data columns alone, or a constant."""
    data, part = FIELDS[:1], [Field("ds", FIELDS[10].type), Field("hr", FIELDS[4].type)]
    values = {1: pa.array(["2026-01-02"]), 2: pa.array([7], pa.int32())}

    def rest(text: str) -> Node:
        return in_partition(parse(text, data, part).root, values)

    assert rest("ds = '2026-01-01' and id = 1") == Constant(value=False)
    assert rest("hr > 6.5 or id = 1") == Constant(value=True)
    assert rest("hr = 7 and id = 1") == parse("id = 1", data).root
    assert in_partition(parse("hr > 1", data, part).root, {2: pa.array([None], pa.int32())}) == Constant(None)


REFUSED = {
    "": "the condition is empty",
    "idd = 1": "character 1: there is no column 'idd'; did you mean id?",
    "zzz = 1": "there is no column 'zzz'",
    "(id = 1": "character 8: expected '\\)', found the end",
    "id = 1)": "character 7: expected AND, OR or the end, found '\\)'",
    "id = 'abc": "character 6: a quote is not closed",
    "id = ": "character 6: expected a literal, found the end",
    "id 1": "character 4: expected a comparison",
    "id = 1 and": "character 11: expected a column, found the end",
    "upper(id) = 'A'": "UPPER is not supported",
    "id = abs(1)": "ABS is not supported",
    "id rlike 'a'": "RLIKE is not supported",
    "case when id = 1 then true end": "CASE is not supported",
    "id = date": "character 6: a column is compared with a literal, and 'date' is none",
    "id = DATE '2020-02-30'": "'2020-02-30' is not a date like",
    "id = DATE '2020-01-01'": "id is int and cannot be compared with a date",
    "date = 1": "date is date and cannot be compared with a whole number",
    "`a b` = 1.5": "a b is string and cannot be compared with a decimal",
    "`a b` = true": "cannot be compared with TRUE or FALSE",
    "l = 1": "l is array<int>, of which only IS \\[NOT\\] NULL can be asked",
    "st.x = 1": "members of a column \\(st.x\\) are not supported",
    "id like '1%'": "LIKE takes a string column, and id is int",
    "id in ()": "expected a literal",
    "id in (1": "expected ',' or '\\)'",
    "id between 1 or 2": "expected AND",
    "id is 1": "expected NULL",
    "id = 1 ; drop table t": "';' is not understood",
    "1 = 1": "a comparison needs a column on one side",
    "row__id.x = 1": "expected writeid, bucketid or rowid",
    "id = 1L2": "character 6: a column is compared with a literal, and '1L2' is none",
    "id = 1.5.2": "character 6: '1.5.2' is not understood",
    "not": "expected a column",
    "(" * 300 + "id = 1": "more than 200 parentheses",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_is_one_sentence(text: str) -> None:
    """It says what is wrong and where, and what is allowed."""
    with pytest.raises(UsageError, match=REFUSED[text]) as caught:
        parse(text, NESTED)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_any_text_is_a_condition_or_a_sentence() -> None:
    """Random pieces of conditions never end in another error."""
    random = Random(3)
    pieces = [
        "id",
        "=",
        "1",
        "(",
        ")",
        "and",
        "or",
        "not",
        "in",
        "'a'",
        "null",
        "like",
        "between",
        ",",
        "is",
        "<=>",
        "`",
        "'",
        "-",
    ]
    for _ in range(3000):
        text = " ".join(random.choice(pieces) for _ in range(random.randint(1, 9)))
        with suppress(UsageError):
            assert isinstance(parse(text, NESTED), Predicate)


def test_decimals_beyond_every_column() -> None:
    """Numbers that no column holds are compared, not refused."""
    for text in ("dl < 1e99", "dc > -1e300", "bi < 1e400", "i > -99999999999999999999999999999999999999999.5"):
        assert outcomes(text) == "TTNTTTTTTTTT"
    assert outcomes("dc >= 1e-300") == "TFNTFTTTTTTT"


# --- what nobody means

ODD_LITERALS = [
    *("9" * 5000, "0" * 5000 + "1", "9" * 5000 + "L", "9" * 19 + "L", "9" * 5000 + "S", "0" * 5000 + "1BD"),
    *("1e1000000000BD", "-1e1000000000BD", "1e-1000000000BD", "1e99999999999999999999BD", "1e400", "-1e400", "1e-400"),
    *("1e" + "9" * 5000, "." + "9" * 5000, "9" * 5000 + ".", "1.5e+9" + "9" * 30 + "D", "0e0", "00", "1L", "-0.0"),
    *(r"'\ud800'", r"'\udfff'", r"'\ud83d\ude00'", r"'\ude00\ud83d'", r"'\udc80'", r"'a\ud800%'", r"'\377\0\u0000'"),
    *("'NaN'", "'-Infinity'", "'" + "9" * 5000 + "'", "'1e1000000000'", "' 1 '", "''", "'\udcff'", "'\ud800'"),
    *("DATE '9999-12-31'", "DATE '-999-01-01'", "TIMESTAMP '0000-01-01 00:00:00'", "'2020-01-01 25:00:00'", "'٣'"),
    *("TIMESTAMPLOCALTZ '2020-01-01 10:00:00 UTC'", "TRUE", "NULL", "-" + "9" * 400, "0x1F", "1e5f", "1__2", "٣"),
]
SHAPES = [
    *("{} = {}", "{} <=> {}", "{} < {}", "{} >= {}", "{} IN ({}, {})", "{} NOT IN (1, {})", "{} BETWEEN {} AND {}"),
    *("{} NOT BETWEEN {} AND '5'", "{} LIKE {}", "{} NOT LIKE {}", "NOT ({} <> {} OR {} IS NULL)"),
]


def test_odd_literals_are_a_condition_or_a_sentence() -> None:
    """Beside every column, in every form: evaluated on rows and asked of statistics, never another error."""
    conditions = 0
    for field in FIELDS:
        for shape in SHAPES:
            for literal in ODD_LITERALS:
                words = [field.name, literal, field.name if shape.startswith("NOT (") else literal]
                with suppress(UsageError):
                    root = parse(shape.format(*words), FIELDS).root
                    rows = _rows(root)
                    assert len(rows) == 12
                    if True in rows:
                        assert True in stripe_outcomes(root, lambda _: _Facts())
                    conditions += 1
    assert conditions > 3000


def test_numbers_of_thousands_of_digits() -> None:
    """They are what they are: larger than everything, or a small number with zeros before it."""
    for huge in ("9" * 5000, "1e1000000000BD", "1e1000000000"):
        for column in ("i", "bi", "dc", "dl"):
            assert outcomes(f"{column} < {huge}") == "TTNTTTTTTTTT", column
            assert outcomes(f"{column} > -{huge}") == "TTNTTTTTTTTT", column
        # NaN is above all, and infinity as large.
        assert outcomes(f"d < {huge}") == "TTNFFTTTTTTT"
        assert outcomes(f"f >= {huge}") == "FFNTTFFFFFFF"
    assert outcomes("id = " + "0" * 5000 + "7") == "FFFFFFTFFFFF"
    assert outcomes(f"id IN (3, {'9' * 5000})") == "FFTFFFFFFFFF"


def test_surrogates_of_literals() -> None:
    """Two are one character of Java's; Hadoop's Text makes a question mark of one alone."""
    fields = parse_schema("s string, v varchar(3)").columns.fields
    texts = pa.array(["😀", "?", "\ufffd", "a?b"])

    def found(text: str) -> list[bool]:
        rows = mask(parse(text, fields).root, {0: texts, 1: texts}, None, 4)
        return [True] * 4 if rows is None else rows.tolist()

    for column in ("s", "v"):
        assert found(rf"{column} = '\ud83d\ude00'") == [True, False, False, False]
        for lone in (r"\ud800", r"\udc80", r"\udfff"):
            assert found(f"{column} = '{lone}'") == [False, True, False, False]
        assert found(rf"{column} in ('a\ud83db', 'x')") == [False, False, False, True]
    assert found(r"s like 'a\ud83d%'") == [False, False, False, True]


# --- in linear time


def seconds(work: Callable[[], object]) -> float:
    """Of processor time."""
    started = time.process_time()
    work()
    return time.process_time() - started


def _terms(form: str, join: str, count: int) -> str:
    return join.join(form.format(number) for number in range(count))


def _levels(count: int) -> str:
    text = _terms("i = {0} AND s = 'x{0}'", " OR ", count)
    for number in range(150):
        text = f"({text}) {'AND' if number % 2 else 'OR'} i <> {number}"
    return text


@pytest.mark.parametrize(
    "make",
    [
        lambda count: _terms("i = {}", " OR ", count),
        lambda count: _terms("i <> {}", " AND ", count),
        lambda count: _terms("(s LIKE '%{}' OR d IS NULL)", " AND ", count),
        lambda count: f"i IN ({_terms('{}', ',', count)})",
        lambda count: f"{'NOT ' * count}i = 1",
        lambda count: "s = " + "'x' " * count,
        lambda count: f"i = {'9' * 20 * count}x",
        lambda count: f"i = '{'9' * 20 * count}x'",
        _levels,
    ],
    ids=["or", "and", "parentheses", "in", "not", "strings", "digits", "digits in a string", "levels"],
)
def test_parsing_takes_linear_time(make: Callable[[int], str]) -> None:
    """Eight times the terms take some eight times as long, not sixty-four times."""

    def parsed(text: str) -> None:
        with suppress(UsageError):
            parse(text, FIELDS)

    few, many = (seconds(partial(parsed, make(count))) for count in (1_000, 8_000))
    assert many < max(32 * few, 0.5), (few, many)


def test_twenty_thousand_terms() -> None:
    """Parsed, sent to another process, asked of statistics, and evaluated."""

    def work() -> None:
        predicate = pickle.loads(pickle.dumps(parse(_terms("i = {}", " OR ", 20_000), FIELDS)))
        assert stripe_outcomes(predicate.root, lambda _: _Facts()) == {True, False, None}
        assert _rows(predicate.root) == [True, True, False, False, False, True, True, True, True, True, True, True]

    assert seconds(work) < 12
    levels = pickle.loads(pickle.dumps(parse(_levels(10), FIELDS)))
    assert len(_rows(levels.root)) == 12


def test_like_in_linear_time() -> None:
    """Of many `%` each takes the first place that fits, and none is tried again elsewhere."""
    pattern = Like(parse("s is null", FIELDS).root.column, "%a" * 30 + "%b").regex()  # type: ignore[union-attr]
    assert seconds(lambda: pattern.fullmatch("a" * 20_000)) < 1
    assert pattern.fullmatch("a" * 20_000 + "b")


def test_like_matches_as_it_is_defined() -> None:
    """Against a slow model, on short texts and patterns of all forms."""

    def like(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(like(pattern[1:], text[start:]) for start in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and like(pattern[1:], text[1:])

    column = parse("s is null", FIELDS).root.column  # type: ignore[union-attr]
    random = Random(5)
    for _ in range(3000):
        pattern = "".join(random.choice("ab%%_") for _ in range(random.randint(0, 7)))
        text = "".join(random.choice("ab") for _ in range(random.randint(0, 7)))
        assert bool(Like(column, pattern).regex().fullmatch(text)) == like(pattern, text), (pattern, text)


@pytest.mark.parametrize("text", ["i{} = 1", "d = DATE '{}'", "s = '{}'", 's = "{}"', "`{}` = 1"])
def test_a_million_letters_cost_little(text: str) -> None:
    """As a name, which is like no column, and in quotes: 200 bytes a letter were held and more."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(UsageError):
        parse(text.format("x" * 1_000_000), FIELDS)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80 << 10
