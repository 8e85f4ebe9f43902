"""Access and identity reviews: the embedded cluster has one user, who may do everything."""

from __future__ import annotations

from rescheduler.sim.apiserver.errors import Json
from rescheduler.sim.apiserver.resources import ResourceType

USER: Json = {"username": "sandbox-admin", "groups": ["system:masters", "system:authenticated"]}


def review(resource: ResourceType, body: Json) -> Json:
    """The review with its answer in ``status``."""
    answer: Json
    if resource.kind == "SelfSubjectRulesReview":
        rules = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        answer = {
            "resourceRules": [rules],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    elif resource.kind == "SelfSubjectReview":
        answer = {"userInfo": USER}
    else:
        answer = {"allowed": True}
    return {"metadata": {}, **body, "status": answer}
