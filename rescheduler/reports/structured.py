"""Documents as JSON or YAML, for scripts (docs/commands.md). The same document gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

_MANY: Final = 2000
"""Members of a list that are written at once."""


def pretty_json(document: Any) -> str:
    """Indented JSON, ending in a newline."""
    return "".join(pretty_json_parts(document))


def pretty_json_parts(document: Any) -> Iterator[str]:
    """``pretty_json`` in parts: the members of a long list come in several, so that a large plan is never held as one text."""
    long = _long_lists(document) if isinstance(document, msgspec.Struct) else {}
    rest = _indented(
        msgspec.structs.replace(document, **dict.fromkeys(long.values(), ())) if long else document
    )
    for key, name in long.items():
        head, empty, rest = rest.partition(f'\n  "{key}": []')
        items = getattr(document, name)
        yield head + empty[:-1]
        for start in range(0, len(items), _MANY):
            part = _indented(items[start : start + _MANY])
            yield ("," if start else "") + part[1:-2].replace("\n", "\n  ")
        yield "\n  ]"
    yield f"{rest}\n"


def _long_lists(document: msgspec.Struct) -> dict[str, str]:
    """By key, the fields that are long lists, in the order in which they are written."""
    if document.__struct_config__.omit_defaults:
        return {}
    fields = msgspec.structs.fields(document)
    found = ((field, getattr(document, field.name)) for field in fields)
    return {f.encode_name: f.name for f, value in found if isinstance(value, tuple) and len(value) > _MANY}


def _indented(document: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def line_json(document: Any) -> str:
    """JSON in one line, ending in a newline."""
    return msgspec.json.encode(document).decode() + "\n"


def pretty_yaml(document: Any) -> str:
    """YAML with the keys of its JSON, in the same order."""
    import yaml  # noqa: PLC0415 -- takes longer to import than most commands

    return yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False, width=120)


def resource_list(bodies: Iterable[bytes]) -> dict[str, Any]:
    """A List of objects, as kubectl writes it."""
    return {"apiVersion": "v1", "kind": "List", "items": [msgspec.json.decode(body) for body in bodies]}
