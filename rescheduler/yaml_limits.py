"""What a YAML text may ask for before it is read: nesting, aliases, and how many values they become; and what is wrong in it.

A few lines of YAML can stand for more values than there is memory (aliases of aliases), never end (an alias inside of its
own anchor), or end the process inside of libyaml (nesting). So whoever reads YAML asks here first. The events of the
parser are counted, which takes no memory; a text that cannot be that large is not parsed for it.
"""

from __future__ import annotations

import io
import itertools
import re
from typing import Final

import yaml

from rescheduler.errors import ReschedulerError

MOST_BYTES: Final = 4 << 20
"""Of a text that a person writes. A ConfigMap holds less than half of it."""
DEEPEST: Final = 500
"""Of collections, which libyaml still composes on an ordinary stack."""
MOST_VALUES: Final = 200_000
"""Of keys, texts, mappings and lists, each as often as aliases repeat it."""
MOST_REPEATED: Final = 1 << 20
"""Of characters that aliases repeat."""

_RESERVED: Final = "@`%"
"""No plain text begins with one of these."""
_FEW: Final = 20_000
_BEGINS: Final = "[{,:-\n"
"""Each value has at least one of these before it."""
_INDENTED: Final = re.compile(r" {200}|(?:- {1,4}){200}")
"""Only such a text can be very deep without brackets."""


class YamlError(ReschedulerError):
    """The text is not a YAML document that can be taken. The author of the text must act."""

    def __init__(self, line: int, message: str, remedy: str = "") -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        """1-based."""
        self.message = message
        self.remedy = remedy
        """What to write instead."""


def decoded(text: str | bytes) -> str:
    """The text as Unicode, without a byte order mark.

    Raises:
        YamlError: it is not UTF-8; the line of the first wrong byte is named.
    """
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        wrong = f"the text is not UTF-8: byte 0x{text[error.start]:02x}"
        raise YamlError(line, wrong, "save the file as UTF-8") from error


def syntax_error(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    """What the parser found, in words that name the character where it only says that one is wrong."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return YamlError(1, f"not YAML: {error.problem or error.context}", "check indentation and quotes")
    line = next(itertools.islice(io.StringIO(text), mark.line, None), "")
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    wrong = line[mark.column : mark.column + 1]
    if "\t" in blank and mark.column <= len(blank):
        return YamlError(mark.line + 1, "not YAML: the line is indented with a tab", "indent with spaces")
    if wrong and wrong in _RESERVED and error.problem == "found character that cannot start any token":
        return YamlError(mark.line + 1, f"not YAML: no text begins with {wrong}", "put the text in quotes")
    problem = error.problem or error.context or "it cannot be parsed"
    return YamlError(mark.line + 1, f"not YAML: {problem}", "check indentation and quotes")


def check_limits(text: str) -> None:
    """Refuse a text that stands for too much.

    Raises:
        YamlError: nested too deeply, an alias inside of its own anchor, or too many values, also through aliases. What
            is no YAML at all is left to whoever reads it.
    """
    if _is_harmless(text):
        return
    count = _Count()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            count.take(event)
    except yaml.YAMLError:
        return


def _is_harmless(text: str) -> bool:
    if "*" in text and "&" in text:
        return False
    if text.count("[") + text.count("{") >= DEEPEST or _INDENTED.search(text):
        return False
    return len(text) <= _FEW or sum(map(text.count, _BEGINS)) <= MOST_VALUES


class _Count:
    """Values and characters of a text, with what its aliases repeat."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int, int]] = []
        self._anchors: dict[str, tuple[int, int]] = {}
        self._values = 0
        self._characters = 0
        self._repeated = 0

    def take(self, event: yaml.Event) -> None:
        """One event of the parser. Raises YamlError."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            self._repeat(event.anchor, line)
        elif isinstance(event, yaml.ScalarEvent):
            values, characters = 1, len(event.value)
            self._add(values, characters)
            if event.anchor:
                self._anchors[event.anchor] = values, characters
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._values, self._characters))
            self._add(1, 0)
            if event.anchor:
                self._anchors.pop(event.anchor, None)
            if len(self._open) > DEEPEST:
                raise YamlError(line, "nested too deeply", "give a plain document")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values, characters = self._open.pop()
            if anchor:
                self._anchors[anchor] = self._values - values, self._characters - characters
        if self._values > MOST_VALUES:
            raise YamlError(line, f"more than {MOST_VALUES:,} values, with what aliases repeat", "give less")

    def _repeat(self, anchor: str | None, line: int) -> None:
        if any(name == anchor for name, _, _ in self._open) and anchor not in self._anchors:
            raise YamlError(line, f"the alias *{anchor} is inside of its own anchor", "remove the alias")
        values, characters = self._anchors.get(anchor or "", (0, 0))
        self._add(values, characters)
        self._repeated += characters
        if self._repeated > MOST_REPEATED:
            raise YamlError(line, f"aliases repeat more than {MOST_REPEATED:,} characters", "write it out")

    def _add(self, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
