"""The calls that make a pod from the template of its controller: tried in a dry run, or created by mode StartFirst. Pure.

The template is read from the API server, because the cache keeps only the fields that the rules need, and may be older. A
StatefulSet's template is that of its update revision; the template of an older revision is in the ControllerRevision of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from rescheduler.calls.call import Call, CreationTrial, OnError, ReadThenCall, Verb, create, encode
from rescheduler.errors import OwnerReplacedError
from rescheduler.migrations.start_first_replacement import replacement_manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.object_meta import ObjectMeta
from rescheduler.model.records import ObjectKey, OwnerRef, Pod
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.replacements.dry_run import new_pod_manifest

Json = dict[str, Any]


def try_creation(
    pod: Pod,
    owner: OwnerRef,
    template: TemplateKey,
    again: Call | None = None,
    changes: tuple[Call, ...] = (),
) -> CreationTrial:
    """Create, in a dry run, the pod that ``owner`` would create in place of ``pod``, to see what admission makes of it.

    ``again``: that dry run, if the template was read a moment ago. ``changes``: tried before, too.
    """
    steps = again or ReadThenCall(
        does="try_creation",
        read=_read_owner(owner, pod.namespace),
        then=partial(_tried, pod, owner, template.revision),
        purpose=f"POST pods?dryRun=All from its template if its uid is {owner.uid}",
    )
    return CreationTrial(steps, pod, template, changes)


def start_replacement(
    key: ObjectKey,
    owner: OwnerRef,
    migration: ObjectKey,
    *,
    node: str,
    labels: Mapping[str, str],
    replaces: str,
) -> ReadThenCall:
    """Create the replacement of mode StartFirst, pinned to ``node``.

    ``labels``: at its creation, without those that its ReplicaSet selects, which are added after the old pod is evicted.
    ``replaces``: value of annotation ``names.ANNOTATION_REPLACES``.
    """

    def then(found: bytes) -> Call:
        template = _owner_of(found, owner).spec["template"]
        body = replacement_manifest(
            template, key=key, migration=migration, labels=labels, says=replaces, node=node
        )
        return create("start_replacement", Kind.POD, key, encode(body), on_error=OnError.RETURN_REFUSAL)

    return ReadThenCall(
        does="start_replacement",
        read=_read_owner(owner, key.namespace),
        then=then,
        purpose=f"POST its template as pod {key.name} on node/{node} if its uid is {owner.uid}",
        lane=key.namespace,
    )


def _tried(pod: Pod, owner: OwnerRef, revision: str, found: bytes) -> Call | ReadThenCall:
    read = _owner_of(found, owner)
    template: Json = read.spec["template"]
    if owner.kind != "StatefulSet":
        return _trial(pod, owner, revision, template)
    if revision in ("", read.status.update_revision):
        return _trial(pod, owner, revision, template, read.spec)
    key = ObjectKey(pod.namespace, revision)
    return ReadThenCall(
        does="try_creation",
        read=Call(does="read", verb=Verb.GET, kind=Kind.CONTROLLER_REVISION, key=key),
        then=lambda stored: _trial(
            pod, owner, revision, _REVISION.decode(stored).data.spec.template, read.spec
        ),
        purpose="POST pods?dryRun=All from the template of that revision",
    )


def _trial(
    pod: Pod, owner: OwnerRef, revision: str, template: Json, stateful_set: Json | None = None
) -> Call:
    body = new_pod_manifest(template, pod, owner, revision=revision, stateful_set=stateful_set)
    key = ObjectKey(pod.namespace, body["metadata"]["generateName"])
    return Call(
        does="try_creation", verb=Verb.CREATE, kind=Kind.POD, key=key, body=encode(body), dry_run=True
    )


def _read_owner(owner: OwnerRef, namespace: str) -> Call:
    return Call(does="read", verb=Verb.GET, kind=Kind(owner.kind), key=ObjectKey(namespace, owner.name))


def _owner_of(found: bytes, owner: OwnerRef) -> _Owner:
    read = _OWNER.decode(found)
    if read.metadata.uid != owner.uid:
        raise OwnerReplacedError(f"{owner.kind} {owner.name} was deleted and created again")
    return read


class _Revisions(msgspec.Struct, rename="camel", frozen=True):
    update_revision: str = ""


class _Owner(msgspec.Struct):
    metadata: ObjectMeta
    spec: Json
    status: _Revisions = _Revisions()


class _WithTemplate(msgspec.Struct):
    template: Json


class _Data(msgspec.Struct):
    spec: _WithTemplate


class _Revision(msgspec.Struct):
    """A ControllerRevision of a StatefulSet: a patch that replaces the template."""

    data: _Data


# Made at import: the first use of a decoder is not safe from two threads.
_OWNER: Final = msgspec.json.Decoder(_Owner)
_REVISION: Final = msgspec.json.Decoder(_Revision)
