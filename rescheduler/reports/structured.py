"""Documents as JSON or YAML, for scripts (docs/commands.md). The same document gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml


def pretty_json(document: Any, indent: int = 2) -> str:
    """Indented JSON, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=indent).decode() + "\n"


def pretty_yaml(plan: Any) -> str:
    """YAML with the keys of its JSON, in the same order."""
    return yaml.safe_dump(msgspec.to_builtins(plan), sort_keys=False, width=120)


def objects_text(bodies: Sequence[bytes], output: str) -> str:
    """A List of objects, as kubectl writes it; ``output``: json or yaml."""
    found = {"apiVersion": "v1", "kind": "List", "items": [msgspec.json.decode(body) for body in bodies]}
    return pretty_json(found, 4) if output == "json" else yaml.safe_dump(found, sort_keys=False)
