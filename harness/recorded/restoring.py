"""A sandbox with the objects of a recording, byte for byte as another version has stored them.

They pass no admission, since they are stored already. The CRDs and the admission policies are those of this version; as
an API server does with what it reads, fields that a schema does not know are dropped, and its defaults are added.
"""

from __future__ import annotations

import json

from harness.recorded.recording import Moment
from harness.recorded.scenes import KUBELET
from rescheduler.sandbox.installation import install
from rescheduler.sandbox.sandbox import START_S, Sandbox


def restore(moment: Moment, *, seed: int = 0) -> Sandbox:
    """A sandbox in virtual time, at the time and with the objects of the moment."""
    sandbox = Sandbox(seed=seed, kubelet=KUBELET)
    install(sandbox.transport)
    sandbox.advance(moment.at_s - START_S)
    store = sandbox.server.store
    with store.lock:
        for (kind, namespace, name), obj in moment.objects.items():
            resource = store.registry.by_kind(obj["apiVersion"], kind)
            if resource is None:
                continue  # a kind that is not served any more
            copy = json.loads(json.dumps(obj))
            if resource.custom is not None:
                resource.custom.prune_and_default(copy)
            store.objects.put(resource.table, (namespace, name), copy)
    return sandbox
