"""values.schema.json of the chart, made from the types of the configuration: what the program refuses, ``helm install`` refuses.

``python -m harness.chart_schema`` writes it; a test compares the file. Rules between several values are not in it:
``rescheduler validate`` has them. Policies of other packages are unknown to it (``--skip-schema-validation``).
"""

from __future__ import annotations

import enum
import json
import types
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from rescheduler.configuration.document import Configuration
from rescheduler.configuration.reader import MOST_IN_LIMITS
from rescheduler.model.names import API_VERSION
from rescheduler.model.written import SECONDS, DocumentSection, WrittenAs, keyed_fields
from rescheduler.planning.limits import NAMED_LEVELS, Level
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.wire import NAMESPACE
from rescheduler.scheduling.configuration import API_VERSION as SCHEDULER_VERSION
from rescheduler.scheduling.configuration import KIND as SCHEDULER_KIND
from rescheduler.scheduling.configuration import KNOWN
from rescheduler.scheduling.configuration_wire import ConfigurationWire, PluginSetWire

FILE: Final = Path(__file__).parents[1] / "charts/rescheduler/values.schema.json"
_TEXT: Final = {"type": "string", "minLength": 1}
_SWITCHES: Final = (
    "dryRun", "highlyAvailable", "webhook", "guard", "responder", "startFirst", "dryRunCreation",
    "monitoring", "networkPolicy",
)  # fmt: skip
_PLAIN: Final = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
}
_LEVEL: Final = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"enum": list(NAMED_LEVELS)},
        # --set makes a text of a number with a point.
        {"type": "string", "pattern": r"^(0(\.[0-9]+)?|1(\.0+)?)$"},
    ]
}
_LABELS: Final = {"matchLabels", "nodeSelector"}
_LABEL_KEY: Final = {"pattern": "^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"}
_NAMESPACE: Final = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_LABEL_VALUE: Final = {
    "type": "string",
    "maxLength": 63,
    "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
}
_RESOURCE: Final = {"pattern": "^(cpu|memory|pods|ephemeral-storage|hugepages-.+|.+/.+)$"}
_EXCLUSIVE: Final = (("include", "exclude"), ("includedTaints", "excludedTaints"))
_OPERATORS: Final = [
    {
        "if": {"properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}}},
        "then": {"properties": {"values": {"maxItems": 0}}},
        "else": {
            "required": ["values"],
            "properties": {"operator": {"enum": ["In", "NotIn"]}, "values": {"minItems": 1}},
        },
    }
]
_PERCENT: Final = {"thresholds", "targetThresholds", "startThresholds"}
_DURATION: Final = {"type": "string", "pattern": r"^(0|([0-9]*(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+)$"}
_UNITS: Final = {"ns": 1e-9, "(us|µs|μs)": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
Schema = dict[str, Any]


def values_schema() -> Schema:
    """The whole schema."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"policy": _policies(), "pluginSet": _plugin_set()},
        "required": ["image", "runbookUrlPrefix"],
        **_closed(
            {
                "image": {
                    **_closed(
                        {
                            "repository": _TEXT,
                            "tag": _TEXT,
                            "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
                        }
                    ),
                    "required": ["repository", "tag"],
                },
                "configuration": configuration_schema(),
                **dict.fromkeys(_SWITCHES, _PLAIN[bool]),
                "namespace": _closed({"create": _PLAIN[bool]}),
                "resources": {"type": "object"},
                "imagePullSecrets": {
                    "type": "array",
                    "items": {"type": "object", "required": ["name"], "properties": {"name": _TEXT}},
                },
                "nodeSelector": {"type": "object", "additionalProperties": _PLAIN[str]},
                "tolerations": {"type": "array", "items": {"type": "object"}},
                "affinity": {"type": "object"},
                "priorityClassName": _PLAIN[str],
                "runbookUrlPrefix": {"type": "string", "pattern": "^https?://[^/ #]+[^ #]*$"},
                "global": {"type": "object"},
            }
        ),
    }


def configuration_schema() -> Schema:
    """Of the document of ConfigMap rescheduler; ``apiVersion`` and ``kind`` may be left out."""
    found, policies = (
        _struct(Configuration),
        {"type": "array", "items": {"$ref": "#/definitions/policy"}, "uniqueItems": True},
    )
    profile = found["properties"]["profiles"]["items"]
    profile["properties"]["policies"] = policies
    profile["properties"]["name"] = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,63}$"}
    found["properties"]["profiles"] |= {"minItems": 1, "uniqueItems": True}
    found["not"] = {"required": ["profiles", "policies"]}
    for limit in found["properties"]["limits"]["properties"].values():
        if limit.get("type") == "integer":
            limit["maximum"] = MOST_IN_LIMITS
    profile["required"].append("policies")
    found["properties"] |= {
        "apiVersion": {"enum": [API_VERSION]},
        "kind": {"enum": ["ReschedulerConfiguration"]},
        "metadata": {"type": "object"},
        "policies": policies,
        "schedulerConfiguration": _scheduler(),
    }
    return found


def _scheduler() -> Schema:
    found = _struct(ConfigurationWire)
    found["properties"] |= {
        "apiVersion": {"enum": [SCHEDULER_VERSION]},
        "kind": {"enum": [SCHEDULER_KIND]},
        "extenders": {"type": ["array", "null"], "maxItems": 0},
    }
    profile = found["properties"]["profiles"]["anyOf"][0]["items"]["properties"]
    profile["pluginConfig"]["anyOf"][0]["items"]["properties"]["name"] = {"enum": sorted(KNOWN)}
    points = profile["plugins"]["anyOf"][0]["properties"]
    points |= {
        key: {"anyOf": [{"$ref": "#/definitions/pluginSet"}, _PLAIN[types.NoneType]]} for key in points
    }
    return found


def _plugin_set() -> Schema:
    """What an extension point switches on and off, with the names that are known."""
    found = _struct(PluginSetWire)
    for key in ("enabled", "disabled"):
        plugins, _ = found["properties"][key]["anyOf"]
        plugins["items"]["properties"]["name"] = {"enum": ["*", *sorted(KNOWN)]}
    return found


def _policies() -> Schema:
    """An entry: one of the known names, and the arguments of that policy."""
    cases = []
    for name, kind in REGISTRY.items():
        arguments = _struct(kind.args)
        for key in _PERCENT & arguments["properties"].keys():
            for case in (shares := arguments["properties"][key]).get("anyOf", [shares]):
                if case["type"] == "object":
                    case["additionalProperties"] |= {"minimum": 0, "maximum": 100}
                    case |= {"propertyNames": _RESOURCE, "minProperties": 1}
        arguments["properties"] = {"name": {}, **arguments["properties"]}
        cases.append({"if": {"properties": {"name": {"const": name}}}, "then": arguments})
    return {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"enum": list(REGISTRY)}},
        "allOf": cases,
    }


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _struct(kind: type[msgspec.Struct]) -> Schema:
    fields = keyed_fields(kind)
    found: Schema = {"type": "object", "properties": {key: schema_of(f.type) for key, f in fields.items()}}
    if issubclass(kind, DocumentSection) or kind.__struct_config__.forbid_unknown_fields:
        found["additionalProperties"] = False
    for key in _LABELS & found["properties"].keys():
        found["properties"][key] |= {"propertyNames": _LABEL_KEY, "additionalProperties": _LABEL_VALUE}
    for pair in _EXCLUSIVE:
        if found["properties"].keys() >= set(pair):
            found["not"] = {
                "required": list(pair),
                "properties": {key: {"type": "array", "minItems": 1} for key in pair},
            }
    if "operator" in found["properties"]:
        found["allOf"] = _OPERATORS
    if required := [key for key, field in fields.items() if field.required]:
        found["required"] = required
    return found


def schema_of(kind: Any) -> Schema:
    """Of a value that is written as the type says."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind == Level:
        return _LEVEL
    if origin is Annotated:
        return _annotated(parts[0], parts[1:])
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(part) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(parts[1])}
    if origin in (list, tuple, frozenset):
        return {"type": "array", "items": schema_of(parts[0])}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind]}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind)
    return {}


def _annotated(kind: Any, marks: tuple[Any, ...]) -> Schema:
    written = next((mark for mark in marks if isinstance(mark, WrittenAs)), None)
    if written is SECONDS:
        least = max((mark.ge or 0 for mark in marks if isinstance(mark, msgspec.Meta)), default=0)
        return _duration_of(least) if least else _DURATION
    if written is NAMESPACE:
        return _NAMESPACE
    if written is not None:
        return schema_of(written.kind)
    found = schema_of(kind)
    for mark in marks:
        if isinstance(mark, msgspec.Meta):
            bounds = {"minimum": mark.ge, "maximum": mark.le, "exclusiveMinimum": mark.gt}
            found |= {key: bound for key, bound in bounds.items() if bound is not None}
    return found


def _duration_of(least_s: float) -> Schema:
    """A duration that is not written with one unit and shorter: a schema cannot add up 9m and 60s."""
    short = (
        f"0*({_below(int(least_s / size))})(\\.[0-9]*)?{unit}"
        for unit, size in _UNITS.items()
        if least_s >= size
    )
    zeros = "(0*(\\.0*)?(ns|us|µs|μs|ms|s|m|h)?)+"
    return {**_DURATION, "not": {"pattern": f"^({zeros}|{'|'.join(short)})$"}}


def _below(number: int) -> str:
    """Pattern of the whole numbers below that, without zeros in front."""
    digits = str(number)
    shorter = [f"[0-9]{{0,{len(digits) - 1}}}"]
    for at, digit in enumerate(digits):
        if int(digit) > (at == 0):
            lowest = 1 if at == 0 else 0
            shorter.append(f"{digits[:at]}[{lowest}-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}")
    return "|".join(shorter)


def text() -> str:
    """As it stands in the file."""
    return json.dumps(values_schema(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
