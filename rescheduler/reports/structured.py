"""Documents as JSON or YAML, for scripts (docs/commands.md). The same document gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


def pretty_json(document: Any) -> str:
    """Indented JSON, ending in a newline."""
    return (msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n").decode()


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
