"""What admission adds to a pod as a hint is known as one where pods' wishes are judged, whoever added it."""

from pathlib import Path

import msgspec

from harness import builders as b
from rescheduler.model.node_marks import HINT_COPIES, HINT_WEIGHT, is_avoid_hint
from rescheduler.webhook.review import ReviewedPod, steer


def test_the_term_of_the_webhook_is_known():
    asked = msgspec.convert({"metadata": {}, "spec": {}}, ReviewedPod)
    (operation,) = steer(asked, "node-a,node-b")
    pod = b.pod("web").set("spec.affinity", operation.value).build()
    assert [is_avoid_hint(term) for term in pod.spec.node_affinity_preferred] == [True] * HINT_COPIES


def test_the_term_of_the_admission_policy_has_the_same_form():
    text = (Path(__file__).parents[2] / "manifests/base/hint.yaml").read_text()
    compact = "".join(text.split())
    assert f'"weight":dyn({HINT_WEIGHT})' in compact
    assert f"[{','.join(['variables.term'] * HINT_COPIES)}]" in compact
    assert '"key":dyn("kubernetes.io/hostname"),"operator":dyn("NotIn")' in compact


def test_other_terms_are_none():
    pod = b.pod("web").prefers_node("kubernetes.io/hostname", "n1", operator="NotIn", weight=99)
    pod = pod.prefers_node("kubernetes.io/hostname", "n1", weight=100).prefers_node("disk", "ssd", weight=100)
    assert not any(map(is_avoid_hint, pod.build().spec.node_affinity_preferred))
