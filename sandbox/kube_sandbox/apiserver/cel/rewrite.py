"""Rewrites Kubernetes' CEL to the core language that the library evaluates.

- Object construction (``Object.spec{a: 1}``, ``JSONPatch{op: "add"}``) becomes a map literal: the result is
  JSON, so the name of the type is not needed.
- Optional selection (``a.?b``, ``a[?k]``) becomes a call of ``optSelect`` or ``optIndex``.
- Escaped property names (``self.__namespace__``) become the plain ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<string>[bBrR]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<number>0x[0-9a-fA-F]+u?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?u?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<other>\.\?|\[\?|&&|\|\||[=!<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_MESSAGES = frozenset({"Object", "JSONPatch"})
_ESCAPES = (
    ("__underscores__", "__"),
    ("__dot__", "."),
    ("__dash__", "-"),
    ("__slash__", "/"),
)


@dataclass(slots=True)
class _Writer:
    tokens: list[tuple[str, str]]
    position: int = 0
    out: list[str] = field(default_factory=list)
    braces: list[str] = field(default_factory=list)

    def peek(self, ahead: int = 1) -> tuple[str, str]:
        """The ``ahead``-th next token that is no space."""
        index = self.position
        while index < len(self.tokens):
            if self.tokens[index][0] != "space":
                ahead -= 1
                if ahead == 0:
                    return self.tokens[index]
            index += 1
        return ("end", "")

    def previous(self) -> str:
        """The last written token that is no space."""
        return next((text for text in reversed(self.out) if text.strip()), "")


def rewrite(source: str) -> str:
    """``source`` in core CEL."""
    writer = _Writer([(m.lastgroup or "other", m[0]) for m in _TOKEN.finditer(source)])
    while writer.position < len(writer.tokens):
        kind, text = writer.tokens[writer.position]
        writer.position += 1
        if kind == "name":
            _name(writer, text)
        elif kind == "other":
            _punctuation(writer, text)
        else:
            writer.out.append(text)
    return "".join(writer.out)


def _name(writer: _Writer, text: str) -> None:
    before = writer.previous()
    if text in _MESSAGES and before != "." and _skip_message_name(writer):
        writer.braces.append("message")
        writer.out.append("{")
    elif writer.braces[-1:] == ["message"] and before in {"{", ","} and writer.peek()[1] == ":":
        writer.out.append(f'"{_unescaped(text)}"')
    elif before == "." and text.startswith("__"):
        writer.out.append(_unescaped(text))
    else:
        writer.out.append(text)


def _skip_message_name(writer: _Writer) -> bool:
    """Move past ``.a.b{`` if that follows; True if it did."""
    start = writer.position
    while writer.peek()[1] == "." and writer.peek(2)[0] == "name":
        _advance(writer, 2)
    if writer.peek()[1] == "{":
        _advance(writer, 1)
        return True
    writer.position = start
    return False


def _advance(writer: _Writer, count: int) -> None:
    while count:
        if writer.tokens[writer.position][0] != "space":
            count -= 1
        writer.position += 1


def _punctuation(writer: _Writer, text: str) -> None:
    if text == ".?":
        name = writer.peek()[1]
        _advance(writer, 1)
        writer.out.append(f'.optSelect("{_unescaped(name)}")')
    elif text == "[?":
        writer.braces.append("optional")
        writer.out.append(".optIndex(")
    elif text == "]" and writer.braces[-1:] == ["optional"]:
        writer.braces.pop()
        writer.out.append(")")
    else:
        _track(writer, text)
        writer.out.append(text)


def _track(writer: _Writer, text: str) -> None:
    if text in "{[(":
        writer.braces.append(text)
    elif text in "}])" and writer.braces:
        writer.braces.pop()


def _unescaped(name: str) -> str:
    if name.startswith("__") and name.endswith("__") and name.count("__") == 2:  # noqa: PLR2004 - one at each end
        return name[2:-2]
    for escape, plain in _ESCAPES:
        name = name.replace(escape, plain)
    return name
