"""The text of a condition on rows, parsed and bound to the columns of a table: an expression that can be evaluated.

The grammar is the part of HiveQL's WHERE that compares columns with literals, and literals mean what they mean there.
Expressions are frozen values that can be pickled. `conditions` evaluates them, `stripes` asks which stripes they need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import Enum
from typing import NamedTuple

from acidctl.errors import UsageError
from acidctl.rows.literals import (
    NEVER,
    NUMBERS,
    TEXTS,
    As,
    Literal,
    LiteralKind,
    NotComparableError,
    Place,
    Value,
    day_of,
    moment_of,
    taken_as,
)
from acidctl.types.hive_types import Field, HiveType, Primitive, TypeKind
from acidctl.values import dataclass

_HINT = (
    "Allowed are comparisons of a column with a literal (=, <>, <, <=, >, >=, <=>), [NOT] IN (...), [NOT] BETWEEN, "
    "[NOT] LIKE, IS [NOT] NULL, AND, OR, NOT and parentheses."
)
_MOST_LEVELS, _MOST_LETTERS = 200, 1 << 20
_NAME_LETTERS = 256


class Op(Enum):
    """A comparison; SAME is Hive's `<=>`, which takes NULL for a value."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    SAME = "<=>"


_OPS = {op.value: op for op in Op} | {"==": Op.EQUAL, "!=": Op.NOT_EQUAL}
_MIRRORED = {Op.LESS: Op.GREATER, Op.GREATER: Op.LESS, Op.AT_MOST: Op.AT_LEAST, Op.AT_LEAST: Op.AT_MOST}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its place among the data columns, or, behind them, the partition columns; ROW__ID's are negative."""

    name: str
    type: HiveType
    place: int


#: The parts of ROW__ID, as columns.
WRITE_ID, BUCKET, ROW = (
    Column(f"ROW__ID.{name}", Primitive(kind), place)
    for name, kind, place in (
        ("writeid", TypeKind.BIGINT, -3),
        ("bucketid", TypeKind.INT, -2),
        ("rowid", TypeKind.BIGINT, -1),
    )
)
_ROW_ID = {"writeid": WRITE_ID, "bucketid": BUCKET, "rowid": ROW}


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE, or NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column and a value, both taken as `as_`."""

    column: Column
    op: Op
    as_: As
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """Whether a column equals one of some values that are all taken as `as_`."""

    column: Column
    as_: As
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text has the form of a pattern: `_` is one character, `%` any, a backslash takes both as such."""

    column: Column
    pattern: str

    @property
    def prefix(self) -> str:
        """What matching texts begin with."""
        return "".join(piece.text for piece in like_pieces(self.pattern, leading=True))

    def regex(self) -> re.Pattern[str]:
        """The pattern as a regular expression for the whole of a text.

        What stands between two `%` is taken where it comes first, and never elsewhere: that matches whenever anything
        does, in time that is linear in the text.
        """
        parts = [""]
        for piece in like_pieces(self.pattern):
            if piece.kind == _ANYTHING:
                parts.append("")
            else:
                parts[-1] += re.escape(piece.text) if piece.kind is None else piece.kind
        first, *between = parts
        last = f".*{between.pop()}" if between else ""
        return re.compile(first + "".join(f"(?>.*?{part})" for part in between) + last, re.DOTALL)


# In a regular expression what `%` is.
_ANYTHING = ".*"


class LikePiece(NamedTuple):
    """A part of a LIKE pattern: `text` as such, or the regular expression `kind`."""

    text: str
    kind: str | None


def like_pieces(pattern: str, *, leading: bool = False) -> Iterator[LikePiece]:
    """The parts of a pattern, all or those before the first that is not a text."""
    for match in re.finditer(r"\\([%_\\])|(%+)|(_)|([^%_\\]+|\\)", pattern):
        escaped, many, one, text = match.groups()
        if many or one:
            if leading:
                return
            yield LikePiece("", _ANYTHING if many else ".")
        else:
            yield LikePiece(escaped or text, None)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; NULL stays NULL."""

    part: Node


@dataclass(frozen=True, slots=True)
class Every:
    """AND of several."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """OR of several."""

    parts: tuple[Node, ...]


Leaf = Comparison | Among | IsNull | Like
Node = Constant | Leaf | Not | Every | Either


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition bound to the columns of a table: `data` of them are in files, `partition` are names of folders."""

    text: str
    root: Node
    data: int

    def reads(self) -> tuple[int, ...]:
        """The places of the data columns that it reads, in ascending order."""
        return data_places(self.root, self.data)


def leaves(node: Node) -> Iterator[Leaf]:
    """All comparisons of a condition with columns."""
    if isinstance(node, Not):
        yield from leaves(node.part)
    elif isinstance(node, Every | Either):
        for part in node.parts:
            yield from leaves(part)
    elif not isinstance(node, Constant):
        yield node


def data_places(node: Node, count: int) -> tuple[int, ...]:
    """Which of the first `count` columns a condition reads."""
    return tuple(sorted({leaf.column.place for leaf in leaves(node) if 0 <= leaf.column.place < count}))


def resolved(node: Node, answer: Callable[[Leaf], bool | Leaf | None]) -> Node:
    """The condition with some comparisons answered: `answer` gives the value of one, or the leaf itself."""
    if isinstance(node, Constant):
        return node
    if isinstance(node, Not):
        return negated(resolved(node.part, answer))
    if isinstance(node, Every | Either):
        return joined(type(node), [resolved(part, answer) for part in node.parts])
    found = answer(node)
    return Constant(found) if found is None or isinstance(found, bool) else found


def negated(node: Node) -> Node:
    """NOT of a condition."""
    if isinstance(node, Constant):
        return Constant(None if node.value is None else not node.value)
    return Not(node)


def joined(kind: type[Every] | type[Either], parts: Sequence[Node]) -> Node:
    """AND or OR of conditions, with one value as soon as a part decides it."""
    decisive = kind is Either
    flat: list[Node] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else [part]
    if any(part == Constant(decisive) for part in flat):
        return Constant(decisive)
    rest = [part for part in flat if part != Constant(not decisive)]
    # Beside a NULL the others still decide whether it is NULL or the decisive value. These by identity: to compare them
    # by value would look at each leaf again for each level above it.
    rest = list({part if isinstance(part, Constant) else id(part): part for part in rest}.values())
    if not rest:
        return Constant(not decisive)
    return rest[0] if len(rest) == 1 else kind(tuple(rest))


def parse(text: str, data: Sequence[Field], partition: Sequence[Field] = ()) -> Predicate:
    """The condition that a text states on a table of these columns.

    UsageError, one sentence with the place in the text, for what it cannot be.
    """
    if not text.strip():
        raise UsageError("the condition is empty", hint=_HINT)
    if len(text) > _MOST_LETTERS:
        raise UsageError(f"the condition has {len(text)} characters, at most {_MOST_LETTERS} are read")
    parser = _Parser(text, [*data, *partition])
    root = parser.either()
    if parser.peek().kind != "end":
        raise parser.failure("expected AND, OR or the end")
    return Predicate(text, root, len(data))


# --- The parser, which binds names and literals as it comes to them.


# Possessive where only one reading is possible: else 200 bytes are held for each letter of a text.
_TOKEN = re.compile(
    r"""\s*(?: (?P<skip>--[^\n]*)
      | `(?P<quoted>(?:[^`]++|``)*)`
      | (?P<string>'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+")
      | (?P<number>(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?(?:BD|bd|[LSYDlsyd])?(?![\w.]))
      | (?P<sign><=>|<>|<=|>=|==|!=|[=<>(),.+-])
      | (?P<word>[^\W\d]\w*|\d+[^\W\d]\w*) )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\([0-3][0-7]{2})|\\(.)",
    re.DOTALL,
)
# Surrogates that stand for no byte of a text that is not UTF-8.
_LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_TYPED = {
    "date": (LiteralKind.DATE, "a date like DATE '2026-01-31'"),
    "timestamp": (LiteralKind.TIMESTAMP, "a timestamp like TIMESTAMP '2026-01-31 10:00:00'"),
    "timestamplocaltz": (LiteralKind.INSTANT, "a moment like TIMESTAMPLOCALTZ '2026-01-31 10:00:00 UTC'"),
}
_WORDS = frozenset(["and", "or", "not", "in", "is", "null", "between", "like", "true", "false"])
_UNKNOWN = frozenset(
    ["rlike", "regexp", "ilike", "exists", "case", "cast", "interval", "any", "all", "some", "distinct"]
)
_INT, _LONG = 1 << 31, 1 << 63


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    number: int


def no_column(name: str, names: Iterable[str]) -> str:
    """What is wrong with the name of a column that is none of `names`, and which of these are like it."""
    known = {one.lower(): one for one in names}
    # Comparing takes 300 bytes a letter, and names of Hive have 128 at most.
    near = " or ".join(known[one] for one in get_close_matches(name[:_NAME_LETTERS].lower(), known, 3))
    return f"there is no column '{name[:100]}'" + (f"; did you mean {near}?" if near else "")


class _Parser:
    """Recursive descent over one text."""

    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0
        # Of names that occur twice the first place counts.
        columns = [Column(field.name, field.type, place) for place, field in enumerate(fields)]
        self._by_name = {column.name: column for column in reversed(columns)}
        self._by_lower_name = {column.name.lower(): column for column in reversed(columns)}
        self._names = [column.name for column in columns]
        # Each comparison once, however often it is stated.
        self._known: dict[Leaf, Leaf] = {}

    def peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def take(self) -> _Token:
        token = self.peek()
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        found = all(
            self.peek(i).kind in ("word", "sign") and self.peek(i).text.lower() == word for i, word in enumerate(words)
        )
        self._next += len(words) if found else 0
        return found

    def failure(self, what: str, token: _Token | None = None) -> UsageError:
        token = token or self.peek()
        found = "the end" if token.kind == "end" else repr(token.text[:40])
        if token.kind == "word" and (token.text.lower() in _UNKNOWN or self._is_call(token)):
            return wrong(token.at, f"{token.text.upper()} is not supported")
        return wrong(token.at, f"{what}, found {found}")

    def _is_call(self, token: _Token) -> bool:
        following = self._tokens[min(token.number + 1, len(self._tokens) - 1)]
        return token.kind == "word" and token.text.lower() not in _WORDS and following.text == "("

    def either(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_LEVELS:
            raise self.failure(f"there are more than {_MOST_LEVELS} parentheses in each other")
        parts = [self._every()]
        while self.accept("or"):
            parts.append(self._every())
        self._depth -= 1
        return joined(Either, parts)

    def _every(self) -> Node:
        parts = [self._opposite()]
        while self.accept("and"):
            parts.append(self._opposite())
        return joined(Every, parts)

    def _opposite(self) -> Node:
        opposite = False
        while self.accept("not"):
            opposite = not opposite
        part = self._part()
        return negated(part) if opposite else part

    def _part(self) -> Node:
        if self.accept("("):
            node = self.either()
            if not self.accept(")"):
                raise self.failure("expected ')'")
            return node
        if self._at_literal():
            literal = self._literal()
            op = self._op()
            if op is not None:
                return self._comparison(self._column(), _MIRRORED.get(op, op), literal)
            if literal.kind in (LiteralKind.BOOLEAN, LiteralKind.NULL):
                return Constant({"true": True, "false": False}.get(literal.text))
            raise self.failure("expected a comparison")
        at = self.peek()
        column = self._column()
        op = self._op()
        if op is not None:
            return self._comparison(column, op, self._literal())
        if self.accept("is"):
            opposite = self.accept("not")
            if not self.accept("null"):
                raise self.failure("expected NULL")
            null = self._once(IsNull(column))
            return negated(null) if opposite else null
        opposite = self.accept("not")
        for word, rest in (("in", self._in), ("between", self._between), ("like", self._like)):
            if self.accept(word):
                return negated(rest(column)) if opposite else rest(column)
        if not opposite and isinstance(column.type, Primitive) and column.type.kind is TypeKind.BOOLEAN:
            return self._once(Comparison(column, Op.EQUAL, As.BOOLEAN, value=True))
        if self._is_call(at):
            raise self.failure("", at)
        raise self.failure("expected a comparison, IN, BETWEEN, LIKE or IS NULL")

    def _once(self, leaf: Leaf) -> Leaf:
        return self._known.setdefault(leaf, leaf)

    def _op(self) -> Op | None:
        op = _OPS.get(self.peek().text) if self.peek().kind == "sign" else None
        self._next += op is not None
        return op

    def _column(self) -> Column:
        token = self.peek()
        named = token.kind == "quoted" or (token.kind == "word" and token.text.lower() not in _WORDS)
        if not named or token.text.lower() in _UNKNOWN or self._is_call(token):
            if self._at_literal():
                raise self.failure("a comparison needs a column on one side, so expected a column")
            raise self.failure("expected a column")
        self._next += 1
        name = token.text.lower()
        if name == "row__id" and self.accept("."):
            part = self.take()
            if part.text.lower() not in _ROW_ID:
                raise self.failure("expected writeid, bucketid or rowid", part)
            return _ROW_ID[part.text.lower()]
        if name == "row__id" and self.peek().text.lower() == "is":
            return WRITE_ID
        if self.peek().text == ".":
            member = f"{token.text}.{self.peek(1).text}"
            raise wrong(token.at, f"members of a column ({member[:100]}) are not supported")
        column = self._by_name.get(token.text) or self._by_lower_name.get(name)
        if column is not None:
            return column
        known = [*self._names, WRITE_ID.name]
        raise wrong(token.at, no_column(token.text, known), f"The columns are: {', '.join(self._names)}.")

    def _at_literal(self) -> bool:
        token = self.peek()
        if token.kind == "sign":
            return token.text in ("-", "+")
        if token.kind == "word":
            typed = token.text.lower() in _TYPED and self.peek(1).kind == "string"
            return typed or token.text.lower() in ("true", "false", "null")
        return token.kind in ("string", "number")

    def _literal(self) -> Literal:
        token = self.take()
        word = token.text.lower()
        if token.kind == "sign" and token.text in ("-", "+") and self.peek().kind == "number":
            return _number(self.take(), "-" if token.text == "-" else "")
        if token.kind == "number":
            return _number(token, "")
        if token.kind == "string":
            self._next -= 1
            return Literal(LiteralKind.STRING, self._string(), token.at)
        if token.kind == "word" and word in ("true", "false", "null"):
            return Literal(LiteralKind.NULL if word == "null" else LiteralKind.BOOLEAN, word, token.at)
        if token.kind == "word" and word in _TYPED and self.peek().kind == "string":
            kind, example = _TYPED[word]
            text = self._string()
            read = day_of(text) if kind is LiteralKind.DATE else moment_of(text, zoned=True)
            if read is None:
                raise wrong(token.at, f"{text[:40]!r} is not {example}")
            return Literal(kind, text, token.at)
        if token.kind in ("quoted", "word") and word not in _WORDS and not self._is_call(token):
            raise wrong(token.at, f"a column is compared with a literal, and {token.text[:100]!r} is none")
        raise self.failure("expected a literal", token)

    def _string(self) -> str:
        """A string, or several one after the other, which are one."""
        texts = []
        while self.peek().kind == "string":
            texts.append(_ESCAPE.sub(_unescaped, self.take().text[1:-1]))
        return _LONE.sub("?", "".join(texts))

    def _in(self, column: Column) -> Node:
        if not self.accept("("):
            raise self.failure("expected '('")
        literals = [self._literal()]
        while self.accept(","):
            literals.append(self._literal())
        if not self.accept(")"):
            raise self.failure("expected ',' or ')'")
        values: dict[As, list[Value]] = {}
        parts: list[Node] = []
        for literal in literals:
            taken = _taken(column, literal, Place.IN)
            if isinstance(taken, tuple):
                values.setdefault(taken[0], []).append(taken[1])
            else:
                parts.append(Constant(False if taken == NEVER else None))
        among = [self._once(Among(column, as_, tuple(dict.fromkeys(some)))) for as_, some in values.items()]
        return joined(Either, [*among, *parts])

    def _between(self, column: Column) -> Node:
        low = self._literal()
        if not self.accept("and"):
            raise self.failure("expected AND")
        high = self._literal()
        if _as_doubles(column, low, high):
            low, high = (
                replace(one, kind=LiteralKind.DOUBLE) if _is_text_or_number(one) else one for one in (low, high)
            )
        return joined(
            Every,
            [
                self._comparison(column, Op.AT_LEAST, low, Place.BETWEEN),
                self._comparison(column, Op.AT_MOST, high, Place.BETWEEN),
            ],
        )

    def _like(self, column: Column) -> Node:
        literal = self._literal()
        if literal.kind is LiteralKind.NULL:
            return Constant(None)
        if not isinstance(column.type, Primitive) or column.type.kind not in TEXTS:
            raise wrong(literal.at, f"LIKE takes a string column, and {column.name} is {column.type}")
        if literal.kind is not LiteralKind.STRING:
            raise wrong(literal.at, f"LIKE takes a string, not {literal.kind.value}")
        return self._once(Like(column, literal.text))

    def _comparison(self, column: Column, op: Op, literal: Literal, place: Place = Place.COMPARISON) -> Node:
        taken = _taken(column, literal, place)
        if isinstance(taken, tuple):
            return self._once(Comparison(column, op, *taken))
        return self._once(IsNull(column)) if op is Op.SAME else Constant(None)


def _is_text_or_number(literal: Literal) -> bool:
    return literal.is_number or literal.kind is LiteralKind.STRING


def _as_doubles(column: Column, *limits: Literal) -> bool:
    """Whether BETWEEN takes all three as doubles: as soon as one of them has to be."""
    if column.type.kind in TEXTS:
        return any(limit.is_number for limit in limits)
    doubles = (LiteralKind.DOUBLE, LiteralKind.STRING)
    return column.type.kind in NUMBERS and any(limit.kind in doubles for limit in limits)


def _taken(column: Column, literal: Literal, place: Place) -> tuple[As, Value] | str | None:
    """How Hive compares them; UsageError where it does not."""
    if not isinstance(column.type, Primitive):
        raise wrong(literal.at, f"{column.name} is {_short(column.type)}, of which only IS [NOT] NULL can be asked")
    if literal.kind is LiteralKind.NULL:
        return None
    try:
        return taken_as(column.type, literal, place)
    except NotComparableError:
        raise wrong(
            literal.at,
            f"{column.name} is {column.type} and cannot be compared with {literal.kind.value}",
            "Write the literal in the column's own type, such as " + _example(column.type) + ".",
        ) from None


def _example(kind: Primitive) -> str:
    if kind.kind is TypeKind.BOOLEAN:
        return "TRUE"
    if kind.kind in TEXTS or kind.kind is TypeKind.BINARY:
        return "'text'"
    if kind.kind is TypeKind.DATE:
        return "DATE '2026-01-31'"
    return "TIMESTAMP '2026-01-31 10:00:00'" if "timestamp" in kind.kind.value else "1 or 1.5"


def _short(kind: HiveType) -> str:
    return str(kind) if len(str(kind)) <= 60 else f"{kind.kind.value}<...>"


def wrong(at: int, what: str, hint: str = _HINT) -> UsageError:
    """The condition is not valid, at this place of its text (from 0)."""
    return UsageError(f"the condition is not valid at character {at + 1}: {what}", hint=hint)


def _tokens(text: str) -> Iterator[_Token]:
    at = number = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].lstrip()
            start = len(text) - len(rest)
            if not rest:
                break
            if rest[0] in "'\"`":
                raise wrong(start, "a quote is not closed")
            raise wrong(start, f"{rest[:10].split()[0]!r} is not understood")
        kind = match.lastgroup or ""
        if kind != "skip":
            found = match[kind]
            yield _Token(kind, found.replace("``", "`") if kind == "quoted" else found, match.start(kind), number)
            number += 1
        at = match.end()
    yield _Token("end", "", len(text), number)


def _unescaped(match: re.Match[str]) -> str:
    """What a backslash and its followers stand for (BaseSemanticAnalyzer.unescapeSQLString).

    Two surrogates are one character of Java's; of one alone Hadoop's Text makes a question mark.
    """
    if match[1]:
        return chr(0x10000 + ((int(match[1], 16) - 0xD800) << 10) + int(match[2], 16) - 0xDC00)
    if match[3]:
        code = int(match[3], 16)
        return "?" if 0xD800 <= code <= 0xDFFF else chr(code)
    return chr(int(match[4], 8)) if match[4] else _ESCAPED.get(match[5], match[5])


def _number(token: _Token, sign: str) -> Literal:
    """A number, by its form: bigint beyond 32 bits or with L, decimal with a point, double with E or D."""
    text = token.text.lower()
    body = text.rstrip("bdlsy")
    suffix = text[len(body) :]
    if suffix in ("l", "s", "y") and not body.isdigit():
        raise wrong(token.at, f"'{token.text}' is not a number")
    if suffix == "d" or (not suffix and "e" in body):
        kind = LiteralKind.DOUBLE
    elif suffix == "bd" or "." in body or "e" in body:
        kind = LiteralKind.DECIMAL
    else:
        # Python reads no more than 4,300 digits.
        digits = body.lstrip("0")
        whole = int(digits or "0") if len(digits) < len(str(_LONG)) + 1 else _LONG
        kind = LiteralKind.DECIMAL if whole >= _LONG else LiteralKind.INTEGER
        if whole < _LONG and (suffix == "l" or whole >= _INT):
            kind = LiteralKind.LONG
    return Literal(kind, sign + body, token.at)
