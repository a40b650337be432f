"""The text of Hive types and of table schemas, parsed into values.

Pure: text in, frozen values out. `parse_type` and `parse_schema` raise `UsageError` with one sentence and
nothing else, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from acidctl.errors import UsageError
from acidctl.types.hive_types import Field, HiveType, ListType, MapType, Primitive, StructType, TypeKind, UnionType
from acidctl.values import dataclass

MAX_DECIMAL_PRECISION = 38
MAX_CHAR_LENGTH = 255
MAX_VARCHAR_LENGTH = 65535
OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """What `--schema` says of a table; everything but the columns is known only from SHOW CREATE TABLE.

    `serde` is the class after ROW FORMAT SERDE, `stored_as` the word after STORED AS or the class of INPUTFORMAT. What
    ROW FORMAT DELIMITED says is among `serde_properties`, as Hive keeps it.
    """

    columns: StructType
    partition_columns: tuple[Field, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    sort_columns: tuple[str, ...] = ()
    bucket_count: int | None = None
    table: str | None = None
    from_ddl: bool = False
    serde: str | None = None
    serde_properties: tuple[tuple[str, str], ...] = ()
    stored_as: str | None = None

    def table_property(self, key: str) -> str | None:
        """The value of a table property, the key compared as Hive does for its own keys (ignoring case)."""
        return next((value for name, value in self.properties if name.lower() == key.lower()), None)

    def serde_property(self, key: str) -> str | None:
        """A property of the SerDe, else the table property of that name, as Hive hands both to a SerDe."""
        return next((value for name, value in (*self.serde_properties, *self.properties) if name == key), None)

    @property
    def transactional(self) -> bool | None:
        """Whether the DDL says the table is transactional; None when there was no DDL."""
        return (self.table_property("transactional") or "").lower() == "true" if self.from_ddl else None

    @property
    def insert_only(self) -> bool | None:
        """Whether the DDL says the table is insert-only; None when there was no DDL."""
        kind = (self.table_property("transactional_properties") or "").lower()
        return self.transactional and kind == "insert_only"


_TOKEN = re.compile(
    r"""\s*(?: (?P<skip>--[^\n]*|/\*.*?\*/)
      | `(?P<quoted>(?:[^`]|``)*)`
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<punct>[<>(),:=;])
      | (?P<word>[^\s<>(),:=;`'"]+) )""",
    re.VERBOSE | re.DOTALL,
)
_ALIASES = {"integer": "int", "numeric": "decimal", "dec": "decimal", "real": "double"}
_NESTED = ("array", "map", "struct", "uniontype")
_PLAIN = {kind.value: kind for kind in TypeKind if kind.value not in _NESTED}
_MAX_NESTING = 100
_HINT = "Give columns as 'id int, v string', as struct<id:int,v:string>, or the text of SHOW CREATE TABLE."


class _Token(NamedTuple):
    """One lexical unit: `kind` is quoted, text, punct, word or end."""

    kind: str
    text: str
    offset: int


@lru_cache(maxsize=64)
def parse_type(text: str) -> HiveType:
    """Parse the text of one Hive type, e.g. `array<struct<a:int>>`; UsageError when it is not one."""
    parser = _Parser(text)
    result = parser.type()
    parser.expect("")
    return result


def parse_schema(text: str) -> TableSchema:
    """Parse a table's columns from `struct<...>`, a column list, or the text of SHOW CREATE TABLE.

    Raises UsageError for anything else, also for an empty text and for columns that no table can have.
    """
    schema = _parse_schema(text)
    names = [field.name.lower() for field in (*schema.columns.fields, *schema.partition_columns)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the schema has two columns named '{twice}'", hint="Hive ignores the case of column names.")
    if not schema.columns.fields:
        raise UsageError("the schema has no columns", hint=_HINT)
    return schema


def _parse_schema(text: str) -> TableSchema:
    parser = _Parser(_without_frame(text))
    if parser.peek().kind == "end":
        raise UsageError("the schema is empty", hint=_HINT)
    if parser.at("create"):
        return parser.create_table()
    if parser.at("struct", "<"):
        parsed = parser.type()
        parser.expect("")
        assert isinstance(parsed, StructType)
        return TableSchema(parsed)
    columns = parser.column_list() if parser.at("(") else parser.columns()
    parser.accept(";")
    parser.expect("")
    return TableSchema(StructType(columns))


def _without_frame(text: str) -> str:
    """SHOW CREATE TABLE as beeline prints it, without the table drawn round it."""
    lines = text.strip().splitlines()
    if not lines or not lines[0].startswith("+-"):
        return text
    inner = [line.strip()[1:-1].rstrip() for line in lines if line.startswith("|")]
    return "\n".join(line for line in inner if line.strip() != "createtab_stmt")


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tuple(_tokens(text))
        self._at = 0
        self._depth = 0

    def peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def take(self) -> _Token:
        token = self.peek()
        self._at += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether these words and signs come next; the empty text is the end."""
        following = (self.peek(ahead) for ahead in range(len(texts)))
        return all(
            token.text.lower() == text and token.kind not in ("quoted", "text")
            for token, text in zip(following, texts, strict=True)
        )

    def accept(self, *texts: str) -> bool:
        found = self.at(*texts)
        self._at += len(texts) if found else 0
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected '{text}'" if text else "expected the end")

    def error(self, what: str) -> UsageError:
        token = self.peek()
        found = "the end" if token.kind == "end" else f"'{token.text[:40]}'"
        return UsageError(
            f"the schema is not valid: {what} at character {token.offset + 1}, found {found}",
            hint=_HINT,
        )

    def number(self, low: int, high: int, what: str) -> int:
        token = self.peek()
        if token.kind != "word" or not (token.text.isascii() and token.text.isdigit()) or len(token.text) > 9:
            raise self.error(f"expected {what} as a number")
        value = int(token.text)
        if not low <= value <= high:
            raise self.error(f"{what} must be between {low} and {high}")
        self._at += 1
        return value

    def type(self) -> HiveType:
        token = self.peek()
        if token.kind != "word":
            raise self.error("expected a type")
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise self.error("types are nested too deeply")
        self._at += 1
        word = token.text.lower()
        word = _ALIASES.get(word, word)
        result = self._nested(word) if self.at("<") else self._primitive(word)
        self._depth -= 1
        return result

    def _nested(self, word: str) -> HiveType:
        if word not in _NESTED:
            self._at -= 1
            raise self.error("expected a type that takes '<'")
        self.expect("<")
        if word == "struct":
            fields = () if self.at(">") else self.columns()
            self.expect(">")
            return StructType(fields)
        parts = [self.type()]
        if word == "map":
            self.expect(",")
            parts.append(self.type())
        while word == "uniontype" and self.accept(","):
            parts.append(self.type())
        self.expect(">")
        if word == "map":
            return MapType(*parts)
        return ListType(*parts) if word == "array" else UnionType(tuple(parts))

    def _primitive(self, word: str) -> HiveType:
        if word in ("char", "varchar"):
            self.expect("(")
            limit = MAX_CHAR_LENGTH if word == "char" else MAX_VARCHAR_LENGTH
            length = self.number(1, limit, "the length")
            self.expect(")")
            return Primitive(TypeKind(word), length=length)
        if word == "decimal":
            # Hive's default for a bare `decimal` since HIVE-3976.
            precision, scale = 10, 0
            if self.accept("("):
                precision = self.number(1, MAX_DECIMAL_PRECISION, "the precision")
                if self.accept(","):
                    scale = self.number(0, precision, "the scale")
                self.expect(")")
            return Primitive(TypeKind.DECIMAL, precision=precision, scale=scale)
        if word == "timestamplocaltz" or (word == "timestamp" and self.accept("with", "local", "time", "zone")):
            return Primitive(TypeKind.TIMESTAMP_LOCAL)
        if word == "double" and self.at("precision") and self.peek(1).text in (",", ")", ">", ""):
            self._at += 1
        if word not in _PLAIN:
            self._at -= 1
            raise self.error("expected a type")
        return Primitive(_PLAIN[word])

    def columns(self) -> tuple[Field, ...]:
        fields = [self._column()]
        while self.accept(","):
            fields.append(self._column())
        return tuple(field for field in fields if field is not None)

    def column_list(self) -> tuple[Field, ...]:
        self.expect("(")
        columns = self.columns()
        self.expect(")")
        return columns

    def _column(self) -> Field | None:
        if self.peek().kind == "word" and self.peek(1).kind in ("word", "punct", "quoted"):
            words = (self.peek().text.lower(), self.peek(1).text.lower())
            if words in (("primary", "key"), ("foreign", "key")) or (
                words[0] in ("constraint", "unique", "check") and self.peek(1).kind != "punct"
            ):
                self._skip_clause()
                return None
        token = self.peek()
        if token.kind not in ("word", "quoted") or not token.text:
            raise self.error("expected a column name")
        self._at += 1
        name = token.text
        # Hive's own type text does not quote names of struct fields, even with blanks in them.
        while self.peek().kind == "word" and self.peek(1).text == ":" and self.peek(1).kind == "punct":
            name = self._text[token.offset : self.peek().offset] + self.take().text
        self.accept(":")
        result = Field(name, self.type())
        self._skip_clause()
        return result

    def _skip_clause(self) -> None:
        """Skip COMMENT 'x', NOT NULL, DEFAULT ... up to the comma or bracket that ends this column."""
        depth = 0
        while self.peek().kind != "end":
            token = self.peek()
            if token.kind == "punct":
                if depth == 0 and token.text in (",", ")", ">", ";"):
                    return
                if depth == 0 and token.text in ("<", ":"):
                    raise self.error("expected the end of the column")
                depth += {"(": 1, ")": -1}.get(token.text, 0)
            elif depth == 0 and token.kind == "word" and token.text.lower() not in _COLUMN_WORDS:
                raise self.error("expected a comma or the end of the column")
            self._at += 1

    def create_table(self) -> TableSchema:
        while not self.accept("table"):
            if self.take().kind != "word":
                raise self.error("expected CREATE TABLE")
        self.accept("if", "not", "exists")
        name = ""
        while self.peek().kind in ("word", "quoted"):
            name += self.take().text
        if not name:
            raise self.error("expected a table name")
        columns = self.column_list()
        partition: tuple[Field, ...] = ()
        sort: tuple[str, ...] = ()
        count: int | None = None
        properties: tuple[tuple[str, str], ...] = ()
        serde: str | None = None
        stored_as: str | None = None
        of_serde: dict[str, str] = {}
        while self.peek().kind != "end":
            if self.accept("partitioned", "by"):
                partition = self.column_list()
            elif self.accept("clustered", "by"):
                self._names()
            elif self.accept("sorted", "by"):
                sort = self._names()
            elif self.at("into") and self.peek(2).text.lower() == "buckets":
                self._at += 1
                count = self.number(1, 10**9 - 1, "the number of buckets")
            elif self.accept("tblproperties"):
                properties = self._properties()
            elif self.accept("row", "format", "serde"):
                serde = self._text_value()
            elif self.accept("serdeproperties"):
                of_serde.update(self._properties())
            elif self.accept("stored", "as", "inputformat"):
                stored_as = self._text_value()
            elif self.accept("stored", "as") or self.accept("stored", "by"):
                stored_as = self.take().text.lower()
            elif (delimiter := next((keys for words, keys in _DELIMITERS if self.accept(*words)), None)) is not None:
                of_serde.update(dict.fromkeys(delimiter, self._text_value()))
            else:
                self.take()
        if serde == OPEN_CSV:
            # Whatever the DDL says of their types: Hive asks this SerDe for them, which knows strings only.
            columns = tuple(Field(column.name, Primitive(TypeKind.STRING)) for column in columns)
        return TableSchema(
            StructType(columns),
            partition,
            properties,
            sort,
            count,
            name,
            from_ddl=True,
            serde=serde,
            serde_properties=tuple(of_serde.items()),
            stored_as=stored_as,
        )

    def _text_value(self) -> str:
        token = self.take()
        if token.kind != "text":
            raise self.error("expected a text in quotes")
        return _unquote(token.text)

    def _names(self) -> tuple[str, ...]:
        self.expect("(")
        names = []
        while not self.accept(")"):
            token = self.take()
            if token.kind == "end":
                raise self.error("expected ')'")
            if token.kind == "quoted" or (token.kind == "word" and token.text.lower() not in ("asc", "desc")):
                names.append(token.text)
        return tuple(names)

    def _properties(self) -> tuple[tuple[str, str], ...]:
        self.expect("(")
        pairs = []
        while not self.accept(")"):
            key = self.take()
            self.expect("=")
            value = self.take()
            if key.kind != "text" or value.kind != "text":
                raise self.error("expected 'key'='value'")
            pairs.append((_unquote(key.text), _unquote(value.text)))
            if not self.accept(",") and not self.at(")"):
                raise self.error("expected ',' or ')'")
        return tuple(pairs)


# The clauses of ROW FORMAT DELIMITED, and the SerDe's properties in which Hive keeps them.
_DELIMITERS = (
    (("fields", "terminated", "by"), ("field.delim", "serialization.format")),
    (("escaped", "by"), ("escape.delim",)),
    (("collection", "items", "terminated", "by"), ("collection.delim",)),
    (("map", "keys", "terminated", "by"), ("mapkey.delim",)),
    (("lines", "terminated", "by"), ("line.delim",)),
    (("null", "defined", "as"), ("serialization.null.format",)),
)
_COLUMN_WORDS = frozenset(
    re.findall(
        r"\w+",
        """comment not null default enable disable enabled disabled enforced validate novalidate rely norely unique
        check constraint primary key foreign references current_date current_timestamp current_user true false cast
        as""",
    )
)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at:].strip():
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise UsageError(
                    f"the schema is not valid: a quote at character {start + 1} is not closed",
                    hint=_HINT,
                )
            break
        kind = match.lastgroup or "end"
        if kind != "skip":
            value = match.group(kind)
            yield _Token(kind, value.replace("``", "`") if kind == "quoted" else value, match.start(kind))
        at = match.end()
    yield _Token("end", "", len(text))


_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([01][0-7][0-7])|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unquote(text: str) -> str:
    """The text between quotes, its escapes resolved as Hive's `BaseSemanticAnalyzer.unescapeSQLString` does."""
    body = text[1:-1]
    if text[0] == "'":
        body = body.replace("''", "'")

    def plain(match: re.Match[str]) -> str:
        code, octal, other = match.groups()
        if code is not None:
            return chr(int(code, 16))
        return chr(int(octal, 8)) if octal is not None else _ESCAPED.get(other, other)

    return _ESCAPES.sub(plain, body)
