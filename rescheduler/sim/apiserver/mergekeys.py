"""Which lists of which kinds are merged by key: the strategic merge directives of the built-in types.

Keyed by the name of the list's field and, where the same name means different things, by the field above it.
"""

from __future__ import annotations

_BY_FIELD: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "secrets": ("name",),
    "matchConditions": ("name",),
    "variables": ("name",),
}
_PORTS = {"containers": ("containerPort", "protocol"), "initContainers": ("containerPort", "protocol")}
_PRIMITIVE = frozenset({"finalizers", "podCIDRs"})


def merge_keys(field: str, parent: str, *, apply: bool = False) -> tuple[str, ...]:
    """Keys of the list ``field`` in ``parent``; empty if the list is replaced as a whole.

    Strategic merge knows one key only; server-side apply (``apply``) knows them all.
    """
    keys: tuple[str, ...]
    keys = _PORTS.get(parent, ("port", "protocol")) if field == "ports" else _BY_FIELD.get(field, ())
    return keys if apply else keys[:1]


def merges_as_set(field: str) -> bool:
    """True for lists of plain values whose patches add instead of replace."""
    return field in _PRIMITIVE
