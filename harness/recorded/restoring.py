"""A sandbox with the objects of a recording, byte for byte as another version has stored them.

They pass no admission, since they are stored already. The CRDs and the admission policies are those of this version; as
an API server does with what it reads, fields that a schema does not know are dropped, and its defaults are added.
"""

from __future__ import annotations

import json
from typing import Final

from harness.recorded.recording import Moment, kept
from harness.recorded.scenes import KUBELET
from kube_sandbox.apiserver.strategies import default_fields, prune
from kube_sandbox.installing import install
from kube_sandbox.sandbox import START_S, Sandbox

_MADE_AND_DELETED: Final = ("Pod", "PodMigration", "Reservation")
"""Kinds of which no manifest installs an object."""


def restore(moment: Moment) -> Sandbox:
    """A sandbox in virtual time, at the time and with the objects of the moment."""
    sandbox = Sandbox(kubelet=KUBELET)
    install(sandbox.transport)
    sandbox.advance(moment.at_s - START_S)
    put_back(sandbox, moment)
    return sandbox


def put_back(sandbox: Sandbox, moment: Moment) -> None:
    """Make the objects of the moment those that are stored, whatever is stored now."""
    store = sandbox.server.store
    with store.lock:
        for key, obj in kept(sandbox.api.everything()).items():
            if key not in moment.objects and obj["kind"] in _MADE_AND_DELETED:
                found = store.registry.by_kind(obj["apiVersion"], obj["kind"])
                if found is not None:
                    store.objects.remove(found.table, key[1:])
        for (kind, namespace, name), obj in moment.objects.items():
            resource = store.registry.by_kind(obj["apiVersion"], kind)
            if resource is None:
                continue  # a kind that is not served any more
            copy = json.loads(json.dumps(obj))
            if resource.schema is not None:
                prune(copy, resource.schema)
                default_fields(copy, resource.schema)
            before = store.find(resource.table, namespace, name)
            if before is not None and "managedFields" in before["metadata"]:  # a recording has none
                copy["metadata"].setdefault("managedFields", before["metadata"]["managedFields"])
            store.objects.put(resource.table, (namespace, name), copy)
