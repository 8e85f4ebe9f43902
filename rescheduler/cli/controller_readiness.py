"""Whether the controller of a live cluster would carry out what a plan says, for commands that only show one.

Three things keep it from that whatever its configuration says: none is running, the gate is missing, or it has no right to
evict, as after an installation that only reports. What may not be read is taken as no hindrance. Nothing is written: a
SubjectAccessReview is a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rescheduler.cli.controller_presence import Leader, Presence
from rescheduler.configuration.document import Configuration
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, ForbiddenError, NotFoundError, NotServedError
from rescheduler.kube.gate import Gate
from rescheduler.model.migration import MoveMode
from rescheduler.webhook.registration import CONFIGURATION_NAME

SERVICE_ACCOUNT: Final = "rescheduler"
_WEBHOOK: Final = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{CONFIGURATION_NAME}"
"""Before Kubernetes 1.36 it takes the place of the policy."""
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus = _ReviewStatus()


def gate_state(api: KubeApi, namespace: str) -> str:
    """InForce, Missing or Unknown. Raises TransportError, and ApiError for other reasons than a missing right."""
    try:
        if Gate(api, namespace=namespace).installed():
            return "InForce"
        api.get(_WEBHOOK)
    except (NotFoundError, NotServedError):
        return "Missing"
    except ForbiddenError:
        return "Unknown"
    return "InForce"


def hindrances(api: KubeApi, found: Leader, namespace: str, configuration: Configuration) -> Iterator[str]:
    """A sentence for each thing because of which nothing of a plan would be done now."""
    mode = configuration.mode
    if configuration.leader_election.enabled and found.presence in (Presence.ABSENT, Presence.STOPPED):
        yield "no controller is running: nobody carries this out (rescheduler status)"
    if mode is not MoveMode.SOFT and gate_state(api, namespace) == "Missing":
        yield "the gate is missing: the controller moves no pod without it (kubectl apply -k manifests/)"
    if _may_evict(api, namespace) is False:
        yield (
            f"the controller (ServiceAccount {namespace}/{SERVICE_ACCOUNT}) has no right to evict pods: it only reports"
        )


def _may_evict(api: KubeApi, namespace: str) -> bool | None:
    """None: it is not known, or the controller is no pod of this cluster."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"],
            "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction"},
        },
    }
    try:
        api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{SERVICE_ACCOUNT}")
        return read_answer(api.create(_REVIEWS, body), _Review).status.allowed
    except ApiError:
        return None
