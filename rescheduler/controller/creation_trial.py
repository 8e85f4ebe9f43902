"""The steps of a dry-run creation: read the template from the API server, then create the pod that comes from it (pure).

The template is read, because the cache keeps only the fields that the rules need, and may be older. A StatefulSet's template
is that of its update revision; the template of an older revision is in the ControllerRevision of that name.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from rescheduler.controller.calls import Call, CreationTrial, ReadThenCall, Verb
from rescheduler.kube.errors import ConflictError
from rescheduler.migrations.actions import DryRunCreate
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.replacements.dry_run import new_pod_manifest

Json = dict[str, Any]


def creation_trial(action: DryRunCreate) -> CreationTrial:
    """The operation of the action."""
    owner = action.owner
    return CreationTrial(
        ReadThenCall(
            read=Call(verb=Verb.GET, kind=Kind(owner.kind), key=ObjectKey(action.pod.namespace, owner.name)),
            then=partial(_of_owner, action),
            purpose=f"POST pods?dryRun=All from its template if its uid is {owner.uid}",
        )
    )


def _of_owner(action: DryRunCreate, body: bytes) -> Call | ReadThenCall:
    owner, found, revision = action.owner, _OWNER.decode(body), action.template.revision
    if found.metadata.uid != owner.uid:
        raise ConflictError(409, "Conflict", f"{owner.kind} {owner.name} was deleted and created again")
    template: Json = found.spec["template"]
    if owner.kind != "StatefulSet":
        return _creation(action, template)
    if revision in ("", found.status.update_revision):
        return _creation(action, template, found.spec)
    key = ObjectKey(action.pod.namespace, revision)
    return ReadThenCall(
        read=Call(verb=Verb.GET, kind=Kind.CONTROLLER_REVISION, key=key),
        then=lambda stored: _creation(action, _REVISION.decode(stored).data.spec.template, found.spec),
        purpose="POST pods?dryRun=All from the template of that revision",
    )


def _creation(action: DryRunCreate, template: Json, stateful_set: Json | None = None) -> Call:
    pod, revision = action.pod, action.template.revision
    body = new_pod_manifest(template, pod, action.owner, revision=revision, stateful_set=stateful_set)
    key = ObjectKey(pod.namespace, body["metadata"]["generateName"])
    return Call(verb=Verb.CREATE, kind=Kind.POD, key=key, body=msgspec.json.encode(body), dry_run=True)


class _Meta(msgspec.Struct):
    uid: str = ""


class _Revisions(msgspec.Struct, rename="camel", frozen=True):
    update_revision: str = ""


class _Owner(msgspec.Struct):
    metadata: _Meta
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
