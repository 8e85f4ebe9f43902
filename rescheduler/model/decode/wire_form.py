"""How objects are read and our own written: by the fields that their records declare, each once.

On the wire a field has its own name in camelCase, or the path that ``field(name=...)`` gives (``podRef.name``). Its type says how it is
written: ``Duration`` and ``Moment`` as texts, ``Resources`` as quantities, a Struct as an object. From a record ``wire_type`` derives
the partial Struct into which msgspec decodes, ``reader`` what makes the record of it, and ``encode`` writes it. Of kinds of others
``object_type`` and ``object_reader`` do the same with the fields that have a path in the object (``spec.nodeName``, ``.value``).

Read: what is missing, null, or empty where nothing empty makes sense has its default. Written: what has its default is left out, but
not numbers, choices, and what is true.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec import NODEFAULT

from rescheduler.model.decode.interning import SharedParts, created_at
from rescheduler.model.decode.selectors import TopologyTermWire, label_selector, topology_term
from rescheduler.model.decode.wire_types import (
    ABSENT,
    LabelSelectorWire,
    MetaWire,
    ObjectWire,
    ResourceList,
    Wire,
)
from rescheduler.model.forms import Amounts, Bytes, CompactJson, Keys, Says, Texts, TopologyTerm
from rescheduler.model.names import API_VERSION
from rescheduler.model.own_objects import Layout, OwnObject, TemplatedObject, check_layout
from rescheduler.model.records import ObjectKey, Toleration
from rescheduler.model.reservation import ControllerRef, KoordinatorPhase, koordinator_phase
from rescheduler.model.resources import Amount, Resources, encode_resources, parse_resources, units
from rescheduler.model.room_sets import HeadRoomStatus, WindowStatus
from rescheduler.model.selectors import LabelSelector, Operator, Pairs
from rescheduler.model.times import (
    Duration,
    Moment,
    Second,
    format_duration,
    format_seconds,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)

JsonObject = dict[str, Any]
Complete = Callable[[Any, MetaWire, SharedParts], Any]
"""Adds to a record what more the metadata of its object say."""
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_NOT_OF_SPEC: Final = {
    "status",
    "namespace",
    *OwnObject.__struct_fields__,
    *TemplatedObject.__struct_fields__,
}
_SHOWN: Final[Mapping[type, Callable[[Any], JsonObject]]] = {
    ControllerRef: lambda _: {"controller": True},
    WindowStatus: lambda s: {"rooms": f"{s.gathered}/{s.wanted}", "placed": len(s.placed_pods)},
    HeadRoomStatus: lambda s: {"rooms": f"{s.standing}/{s.wanted}"},
}
"""What is written and never read: for other readers, and the columns of kubectl."""


class Form(NamedTuple):
    """How values of one type are written."""

    wire: Any
    """The type that msgspec decodes."""
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value


def encode_label_selector(selector: LabelSelector) -> JsonObject:
    """A metav1.LabelSelector. ``In`` with one value becomes a matchLabels entry, the first for each key."""
    labels: dict[str, str] = {}
    expressions: list[JsonObject] = []
    for requirement in selector.requirements:
        single = requirement.operator is Operator.IN and len(requirement.values) == 1
        if single and requirement.key not in labels:
            labels[requirement.key] = requirement.values[0]
            continue
        written = {"key": requirement.key, "operator": requirement.operator.value, "values": list(requirement.values)}  # fmt: skip
        expressions.append(_filled(written))
    return _without_empty({"matchLabels": labels, "matchExpressions": expressions})


def encode_toleration(toleration: Toleration) -> JsonObject:
    """A toleration as the API writes it."""
    texts = {"operator": toleration.operator, "key": toleration.key, "value": toleration.value, "effect": toleration.effect}  # fmt: skip
    return _without_empty({**texts, "tolerationSeconds": toleration.seconds})


def _move_key(text: str) -> ObjectKey:
    """A PodMigration as ``spec.after`` names it; without a slash it names none, and none is found."""
    namespace, _, name = text.partition("/")
    return ObjectKey(namespace, name)


def _pairs(labels: Mapping[str, str | None]) -> Pairs:
    return tuple(sorted((key, value or "") for key, value in labels.items()))


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and without what is empty, so that equal values have equal bytes."""
    return msgspec.json.encode(_filled(value), order="sorted")


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rest for key, entry in value.items() if (rest := _filled(entry)) not in _EMPTY}
    return [_filled(entry) for entry in value] if isinstance(value, list) else value


_FORMS: Final[Mapping[Any, Form]] = {
    Duration: Form(str, parse_duration, format_duration),
    Moment: Form(str, parse_timestamp, format_timestamp),
    Second: Form(str, parse_timestamp, format_seconds),
    Layout: Form(int, check_layout),
    Resources: Form(ResourceList, parse_resources, encode_resources),
    TopologyTerm: Form(TopologyTermWire, topology_term),
    LabelSelector: Form(LabelSelectorWire, label_selector, encode_label_selector),
    ObjectKey: Form(str, _move_key, str),
    Pairs: Form(dict[str, str | None], _pairs, dict),
    Keys: Form(dict[str, str | None], lambda value: tuple(sorted(value))),
    Bytes: Form(Amount, units),
    Texts: Form(dict[str, str]),
    Amounts: Form(ResourceList),
    CompactJson: Form(Any, canonical_json),
    KoordinatorPhase: Form(str, koordinator_phase),
}
_ZEROS: Final[Mapping[Any, Any]] = {str: "", int: 0, Moment: 0.0, Second: 0.0, Texts: {}, Amounts: {}}
_NUMBERS: Final = (int, Layout)


class DeclaredField(NamedTuple):
    """A field of a record, and where and how it is written."""

    name: str
    path: tuple[str, ...]
    declared: Any
    """Its type, without None."""
    form: Form
    default: Any
    empty_is_missing: bool
    default_is_written: bool


@cache
def declared_fields(record: type[msgspec.Struct]) -> tuple[DeclaredField, ...]:
    """What is written of a Struct; of one of our kinds: its spec, without the template."""
    left_out = _NOT_OF_SPEC if issubclass(record, OwnObject) else frozenset()
    return tuple(_declared(info) for info in msgspec.structs.fields(record) if info.name not in left_out)


@cache
def _located_fields(record: type[msgspec.Struct]) -> tuple[DeclaredField, ...]:
    """Of a kind of others: what has a path in its objects. All else is its identity, or made by whoever reads it."""
    return tuple(_declared(info) for info in msgspec.structs.fields(record) if "." in info.encode_name)


def _declared(info: msgspec.structs.FieldInfo) -> DeclaredField:
    declared = info.type
    if type(None) in get_args(declared):
        (declared,) = (choice for choice in get_args(declared) if choice is not type(None))
    choice = isinstance(declared, type) and issubclass(declared, enum.Enum)
    return DeclaredField(
        name=info.name,
        path=tuple(_path(info).split(".")),
        declared=declared,
        form=_form(declared),
        default=_ZEROS[declared] if info.default is NODEFAULT else info.default,
        empty_is_missing=choice or (info.default is not None and declared is not bool),
        default_is_written=choice
        or info.default is NODEFAULT
        or info.default is True
        or declared in _NUMBERS,
    )


def _path(info: msgspec.structs.FieldInfo) -> str:
    return _camel(info.name) if info.encode_name == info.name else info.encode_name.removeprefix(".")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _form(declared: Any) -> Form:
    if declared in _FORMS:
        return _FORMS[declared]
    if (said := getattr(declared, "__metadata__", ())) and isinstance(said[0], Says):
        word, meant = said[0]
        return Form(str, lambda text: meant if text == word else not meant)
    if get_origin(declared) is tuple:
        item = _form(get_args(declared)[0])
        read, write = item.read, item.write
        return Form(list[item.wire], lambda v: tuple(map(read, v)), lambda v: list(map(write, v)))  # type: ignore[name-defined]
    if issubclass(declared, msgspec.Struct):
        return Form(wire_type(declared), reader(declared), encode)
    if issubclass(declared, enum.Enum):
        return Form(str, declared, lambda choice: choice.value)
    return Form(declared)


@cache
def wire_type(record: type[msgspec.Struct]) -> Any:
    """The Struct into which the fields of ``record`` are decoded; the template stays as it is written."""
    template = [("template", msgspec.Raw, ABSENT)] if issubclass(record, TemplatedObject) else []
    part = "Spec" if issubclass(record, OwnObject) else ""
    return _struct(f"{record.__name__}{part}Wire", _nested(declared_fields(record)), template)


@cache
def object_type(record: type[msgspec.Struct]) -> Any:
    """The Struct into which an object of a kind of others is decoded."""
    return _struct(f"{record.__name__}Wire", _nested(_located_fields(record)), base=ObjectWire)


def _nested(fields: Iterable[DeclaredField]) -> Mapping[str, Any]:
    top: dict[str, Any] = {}
    for declared in fields:
        *into, last = declared.path
        inner = top
        for key in into:
            inner = inner.setdefault(key, {})
        inner[last] = declared.form.wire
    return top


def _struct(
    name: str,
    fields: Mapping[str, Any],
    more: Sequence[tuple[str, Any, Any]] = (),
    base: type[Wire] = Wire,
) -> Any:
    declared: list[tuple[str, Any, Any]] = [
        (key, (_struct(f"{name}_{key}", wire) if isinstance(wire, dict) else wire) | None, None)
        for key, wire in fields.items()
    ]
    return msgspec.defstruct(name, [*declared, *more], bases=(base,), gc=False)


_IDENTITY: Final[Mapping[str, Callable[[MetaWire, SharedParts], Any]]] = {
    "name": lambda meta, _: meta.name or "",
    "namespace": lambda meta, _: meta.namespace or "default",
    "uid": lambda meta, _: meta.uid or "",
    "resource_version": lambda meta, _: meta.resource_version or "",
    "generation": lambda meta, _: meta.generation or 0,
    "created_at_s": lambda meta, _: created_at(meta),
    "deleting": lambda meta, _: meta.deletion_timestamp is not None,
    "labels": lambda meta, shared: shared.labels(meta.labels),
}


def identity(record: type[msgspec.Struct], shared: SharedParts) -> Callable[[MetaWire], dict[str, Any]]:
    """What the metadata tell of an object, as far as its record has it."""
    known = [(name, read) for name, read in _IDENTITY.items() if name in record.__struct_fields__]
    return lambda meta: {name: read(meta, shared) for name, read in known}


def object_reader(
    record: type[msgspec.Struct], shared: SharedParts, complete: Complete | None
) -> Callable[[Any, MetaWire], Any]:
    """Makes the record of an object of a kind of others; ``complete`` adds what its metadata say besides."""
    read, known = _reader(record, _located_fields(record)), identity(record, shared)

    def read_object(wire: Any, meta: MetaWire) -> Any:
        found = read(wire, **known(meta))
        return complete(found, meta, shared) if complete is not None else found

    return read_object


@cache
def reader(record: type[msgspec.Struct]) -> Callable[..., Any]:
    """Makes the record of what was decoded; further keywords are further fields."""
    return _reader(record, declared_fields(record))


def _reader(record: type[msgspec.Struct], declared: Iterable[DeclaredField]) -> Callable[..., Any]:
    fields = [(f.name, f.path[0], f.path[1:], f.form.read, f.default, f.empty_is_missing) for f in declared]

    def read(wire: Any, **made: Any) -> Any:
        for name, key, deeper, convert, default, empty_is_missing in fields:
            value = getattr(wire, key)
            for inner in deeper:
                value = value and getattr(value, inner)
            missing = value is None or (empty_is_missing and not value)
            made[name] = default if missing else convert(value)
        return record(**made)

    return read


def encode(record: msgspec.Struct) -> JsonObject:
    """What is declared of a record, as a JSON-ready object. A status is always written as a whole."""
    written: JsonObject = {}
    for field in declared_fields(type(record)):
        value = getattr(record, field.name)
        if value is None or (value == field.default and not field.default_is_written):
            continue
        *into, last = field.path
        inner = written
        for key in into:
            inner = inner.setdefault(key, {})
        inner[last] = field.form.write(value)
    shown = _SHOWN.get(type(record))
    return written | shown(record) if shown is not None else written


def manifest(record: OwnObject, *, owner_references: Sequence[Mapping[str, Any]] = ()) -> JsonObject:
    """The object to create."""
    meta = {
        "namespace": getattr(record, "namespace", ""),
        "name": record.name,
        "labels": dict(record.labels),
        "annotations": dict(record.annotations),
        "ownerReferences": [dict(reference) for reference in owner_references],
        "finalizers": list(record.finalizers),
    }
    spec = encode(record)
    if isinstance(record, TemplatedObject):
        spec = {"template": msgspec.json.decode(record.template_raw), **spec}
    return {
        "apiVersion": API_VERSION,
        "kind": type(record).__name__,
        "metadata": _without_empty(meta),
        "spec": spec,
    }


def with_status(seen: OwnObject, status: msgspec.Struct) -> JsonObject:
    """To replace the status of an object that is still as it was seen: nothing but its identity, its version and the whole status."""
    meta = {"name": seen.name, "uid": seen.uid, "resourceVersion": seen.resource_version, "namespace": getattr(seen, "namespace", "")}  # fmt: skip
    return {"apiVersion": API_VERSION, "kind": type(seen).__name__, "metadata": _without_empty(meta), "status": encode(status)}  # fmt: skip


def _without_empty(fields: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if value not in _EMPTY}
