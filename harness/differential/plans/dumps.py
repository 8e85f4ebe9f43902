"""The forms in which a cluster is read: object by object as from the API server, or as dumps that tools write."""

from __future__ import annotations

import dataclasses
import enum
import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

from harness.differential.comparison import snapshot_of
from harness.differential.manifests import Manifest
from rescheduler.cli.dump_reader import read_sources
from rescheduler.model.decode.decoder import Decoder
from rescheduler.model.kinds import RESOURCES
from rescheduler.model.snapshot import Snapshot


class Form(enum.StrEnum):
    """How the objects are written."""

    OBJECTS = "objects"
    """One by one."""
    JSON = "kubectl get -o json"
    SORTED = "jq -S"
    """Keys are sorted, so that the kind of the List stands behind its items."""
    YAML = "kubectl get -o yaml"


class Misread(Exception):  # noqa: N818 -- an answer: the cluster of a dump is another than that of its objects
    """The text names a field that differs."""


def read(objects: list[Manifest], form: Form) -> Snapshot:
    """The snapshot that is read from the objects in this form.

    Raises:
        Misread: the dump gives another cluster than its objects.
    """
    known = [item for item in objects if item["kind"] in RESOURCES]
    snapshot = snapshot_of(known)
    if form is Form.OBJECTS:
        return snapshot
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("dump.yaml" if form is Form.YAML else "dump.json")
        path.write_text(written(known, form), encoding="utf-8")
        state, warnings = read_sources([str(path)], Decoder(), lambda *_: None)
    found = state.snapshot(0.0)
    if warnings:
        raise Misread(f"{form}: {warnings[0].message}")
    for field in dataclasses.fields(Snapshot):
        if field.compare and getattr(found, field.name) != getattr(snapshot, field.name):
            raise Misread(f"{form}: {field.name} differ")
    return found


def written(objects: list[Manifest], form: Form) -> str:
    """The text of a List of the objects."""
    listed = {"apiVersion": "v1", "items": objects, "kind": "List"}
    if form is Form.YAML:
        return _yaml(listed)
    if form is Form.JSON:
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(listed, indent=2 if form is Form.SORTED else 4, sort_keys=form is Form.SORTED)


class _Value(str):
    """A string that is a value, not a key."""

    __slots__ = ()


def _represented(dumper: yaml.SafeDumper, value: _Value) -> yaml.ScalarNode:
    # go-yaml quotes what it would read as something else. A number beyond all floats it reads as a string.
    plain = value[:1].isdigit() and value.replace("e", "", 1).isdigit() and float(value) == float("inf")
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style="" if plain else '"')


class _Dumper(yaml.SafeDumper):
    """Writes as kubectl does."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_representer(_Value, _represented)


def _yaml(document: Manifest) -> str:
    return yaml.dump(_marked(document), Dumper=_Dumper, sort_keys=True, default_flow_style=False)


def _marked(found: Any) -> Any:
    match found:
        case dict():
            return {key: _marked(value) for key, value in found.items()}
        case list():
            return [_marked(value) for value in found]
        case str():
            return _Value(found)
        case _:
            return found
