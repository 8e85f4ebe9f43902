"""A Plan as JSON or YAML, for scripts (docs/commands.md). The same plan gives the same bytes."""

from __future__ import annotations

import msgspec
import yaml

from rescheduler.planning.plan import Plan


def plan_json(plan: Plan) -> str:
    """Indented JSON, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() + "\n"


def plan_yaml(plan: Plan) -> str:
    """YAML with the same keys in the same order."""
    return yaml.safe_dump(msgspec.to_builtins(plan), sort_keys=False, width=120)
