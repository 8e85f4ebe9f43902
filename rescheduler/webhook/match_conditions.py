"""CEL expressions that keep the API server from calling the webhook for pods that it leaves alone (pure).

Evaluated by the API server itself (``matchConditions``, on by default since 1.28): a pod that matches none
costs no call. The API server takes expressions of up to
100,000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from rescheduler.model.controller_key import CONTROLLER, NAMED, TEMPLATE_HASH
from rescheduler.model.names import LABEL_GATE_PROBE
from rescheduler.model.never_moves import FIXED_OWNERS

MOST_KEYS: Final = 800
"""So many keys of controllers fit into an expression, however long the names of their namespaces are."""
MOST_CHARACTERS: Final = 100_000
"""Of one expression; the API server's own limit."""

_LEGAL: Final = re.compile(r"[-._a-zA-Z0-9]+")
_HASH: Final = f"'-' + object.metadata.labels['{TEMPLATE_HASH}']"
_NAMES: Final = (
    "[o.kind + '.' + o.name, o.kind == 'ReplicaSet' && has(object.metadata.labels) &&"
    f" '{TEMPLATE_HASH}' in object.metadata.labels && o.name.endsWith({_HASH}) ?"
    f" 'Deployment.' + o.name.substring(0, o.name.size() - ({_HASH}).size()) :"
    " (o.kind == 'Job' && o.name.lastIndexOf('-') > 0 ?"
    " 'CronJob.' + o.name.substring(0, o.name.lastIndexOf('-')) : '')]"
)
"""KIND.NAME of the pod's controller ``o``, and of the one above it as far as its name tells (``named_controllers``)."""


_EXPRESSIONS: Final = {
    CONTROLLER: (
        "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,"
        " has(o.controller) && o.controller && [HOME, ''].exists(n,"
        " ('controller.' + n + '.' + o.uid) in KEYS)))"
    ),
    NAMED: (
        "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,"
        f" has(o.controller) && o.controller && {_NAMES}.exists(k, [request.namespace, ''].exists(n,"
        " ('named.' + n + '.' + k) in KEYS))))"
    ),
    "object.": (
        "(has(object.metadata.name) && [request.namespace, ''].exists(n,"
        " ('object.' + n + '.' + object.metadata.name) in KEYS))"
    ),
    "label.": (
        "(has(object.metadata.labels) && object.metadata.labels.exists(k, [request.namespace, ''].exists(n,"
        " ('label.' + n + '.' + k.replace('/', '__') + '.' + object.metadata.labels[k]) in KEYS)))"
    ),
    "labelled.": (
        "(has(object.metadata.labels) && object.metadata.labels.exists(k, [request.namespace, ''].exists(n,"
        " ('labelled.' + n + '.' + k.replace('/', '__')) in KEYS)))"
    ),
}
"""For each kind of key: true for the pods that one of KEYS finds. HOME: the namespace of the pod (``_home``)."""


class MatchCondition(msgspec.Struct, frozen=True):
    """A named CEL expression; all of a webhook must be true."""

    name: str
    expression: str


UNBOUND: Final = MatchCondition("unbound", "!has(object.spec.nodeName) || object.spec.nodeName == ''")
MOVABLE: Final = MatchCondition(
    "ours-or-bound-to-a-node",
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, has(o.controller) &&"
    f" o.controller && o.kind in [{','.join(repr(kind) for kind in FIXED_OWNERS)}])",
)
NOTHING: Final = MatchCondition("nothing", "false")


def match_conditions(keys: Iterable[str], own: str) -> tuple[MatchCondition, ...]:
    """True for unbound pods that one of ``keys`` finds; nothing if there are none.

    Keys are ``controller.…``, ``named.…``, ``object.…``, ``label.…`` or ``labelled.…``; others find nothing. ``own``: the controller's
    namespace, where probes stand for pods of others.

    Beyond MOST_KEYS every unbound pod that could be held matches, and the webhook itself looks.
    """
    wanted = sorted(key for key in keys if key.startswith(tuple(_EXPRESSIONS)) and _LEGAL.fullmatch(key))
    if not wanted:
        return (NOTHING,)
    found = MatchCondition("owner", " || ".join(_alternatives(wanted, own)))
    if len(wanted) > MOST_KEYS or len(found.expression) > MOST_CHARACTERS:
        return (UNBOUND, MOVABLE)
    return (UNBOUND, MOVABLE, found)


def _alternatives(keys: list[str], own: str) -> Iterator[str]:
    """One expression for each kind of key that occurs; the lists are constants of the expression."""
    for kind, expression in _EXPRESSIONS.items():
        if found := [key for key in keys if key.startswith(kind)]:
            yield expression.replace("HOME", _home(own)).replace("KEYS", _list(found))


def _home(own: str) -> str:
    """The namespace of the pod, or the one that a probe in the controller's own stands for."""
    label = f"string(object.metadata.labels['{LABEL_GATE_PROBE}'])"
    probe = f"request.namespace == '{own}' && has(object.metadata.labels) && '{LABEL_GATE_PROBE}' in object.metadata.labels"
    return f"({probe} ? {label} : request.namespace)"


def _list(keys: list[str]) -> str:
    return "[" + ",".join(f"'{key}'" for key in keys) + "]"
