"""YAML 1.2 documents with positions: for configuration that people write by hand.

PyYAML reads YAML 1.1, where ``on`` is true, ``22:30`` is 1350 and the second of two equal keys wins
silently. Here only the core schema of YAML 1.2 applies, duplicate keys are errors, and every value knows
its line, so that a later complaint can name it. Nothing is executed and no object is constructed.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from rescheduler.yaml_limits import YamlError, check_limits, decoded, syntax_error

__all__ = ["Document", "Path", "Word", "YamlError", "load", "load_all", "looks_like_yaml11_bool"]

Path = tuple[str | int, ...]
"""Where a value stands: keys and indexes from the root."""

Word = Callable[[str, Path], Any]
"""Gives the value of an unquoted word at a place. Raises OverflowError for a number that is out of range."""

_DIGITS: Final = 400
"""Of a whole number: more than the largest floating-point number has."""
_MAX_DEPTH: Final = 64
"""Of values."""
_NULL: Final = re.compile(r"^(~|null|Null|NULL|)$")
_BOOL: Final = re.compile(r"^(true|True|TRUE|false|False|FALSE)$")
_INT: Final = re.compile(r"^[-+]?[0-9]+$")
_OCTAL: Final = re.compile(r"^0o[0-7]+$")
_HEX: Final = re.compile(r"^0x[0-9a-fA-F]+$")
_FLOAT: Final = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_YAML11_BOOL: Final = re.compile(r"^(y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document."""

    data: Any
    """Mappings, lists and scalars; None for an empty text."""
    lines: Mapping[Path, int]
    """1-based line of each value (of a mapping entry: of its key)."""

    def at(self, path: Path) -> Any:
        """The value at ``path``, which there must be."""
        return functools.reduce(operator.getitem, path, self.data)

    def line(self, path: Path) -> int:
        """Line of the value at ``path``, or of the nearest value around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def load(text: str | bytes, word: Word | None = None) -> Document:
    """Parse one document. ``word``: what an unquoted word means, in place of YAML 1.2.

    Raises:
        YamlError: syntax, duplicate keys, non-string keys, several documents, anchors' merge keys or tags, numbers
            that are out of range, more than ``rescheduler.yaml_limits`` allows.
    """
    documents = _nodes(decoded(text))
    if not documents:
        return Document(None, {(): 1})
    if len(documents) > 1:
        line = documents[1].start_mark.line + 1
        raise YamlError(line, "a second document begins here", "keep one document in the file")
    return _document(documents[0], word)


def load_all(text: str | bytes, word: Word | None = None) -> tuple[Document, ...]:
    """Parse each document that is not empty; lines are those of the whole text. Raises YamlError as ``load`` does."""
    return tuple(_document(node, word) for node in _nodes(decoded(text)))


def _nodes(text: str) -> list[yaml.Node]:
    check_limits(text)
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        raise syntax_error(error, text) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 1
        raise YamlError(line, "a control character is in the text", "remove it") from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise YamlError(1, f"not YAML: {error}", "the file must be text in UTF-8") from error
    return [node for node in nodes if node is not None]


def _document(node: yaml.Node, word: Word | None) -> Document:
    lines: dict[Path, int] = {}
    return Document(_construct(node, (), lines, word or _core_schema), lines)


def _construct(node: yaml.Node, path: Path, lines: dict[Path, int], word: Word) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if len(path) > _MAX_DEPTH:
        raise YamlError(node.start_mark.line + 1, "nested too deeply", "give a plain document")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, word)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, index), lines, word) for index, item in enumerate(node.value)]
    return _scalar(node, path, word)


def _mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int], word: Word) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlError(line, "a key is not a plain word", "keys are words like 'limits'")
        key = str(key_node.value)
        if key in result:
            first = lines[(*path, key)]
            raise YamlError(line, f"duplicate key '{key}' (first on line {first})", "remove one of the two")
        lines[(*path, key)] = line
        result[key] = _construct(value_node, (*path, key), lines, word)
    return result


def _scalar(node: yaml.Node, path: Path, word: Word) -> Any:
    value = str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"', "|", ">"):
        return value
    if node.tag not in _IMPLICIT_TAGS:
        raise YamlError(node.start_mark.line + 1, f"the tag {node.tag} is not understood", "remove the tag")
    try:
        return word(value, path)
    except OverflowError as error:
        remedy = "put it in quotes if it is a text, else give a smaller number"
        raise YamlError(node.start_mark.line + 1, str(error), remedy) from error


def _core_schema(value: str, _path: Path) -> Any:
    """What an unquoted word means in the YAML 1.2 core schema. Raises OverflowError."""
    if _NULL.match(value):
        return None
    if _BOOL.match(value):
        return value.lower() == "true"
    if _INT.match(value):
        if len(value) > _DIGITS:
            raise OverflowError(f"{value[:20]}... has {len(value)} digits, more than a number may have")
        return int(value)
    if _OCTAL.match(value):
        return int(value, 0)
    if _HEX.match(value):
        return int(value, 0)
    if _FLOAT.match(value):
        number = float(value)
        if math.isinf(number):
            raise OverflowError(f"{value[:40]} is read as a number, and is too large for one")
        return number
    return value


def looks_like_yaml11_bool(value: object) -> bool:
    """True for words such as ``on`` and ``yes`` that YAML 1.1 took for booleans: worth a hint."""
    return isinstance(value, str) and bool(_YAML11_BOOL.match(value))


_IMPLICIT_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "null", "bool", "int", "float", "timestamp", "value", "merge")
)
