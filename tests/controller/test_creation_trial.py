"""Dry-run creations: which pod is sent to the API server, and what each of its answers comes to."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.calls.pods import tried_hand_over
from rescheduler.controller.sender import ApiSender, DryRunSender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response, Transport, TransportError
from rescheduler.migrations.creations import try_creation
from rescheduler.model.names import GATE
from rescheduler.model.outcomes import CreationOutcome as Outcome
from rescheduler.model.records import OwnerRef
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.selectors import LabelSet

CONTAINERS = [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}]
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"mesh": "yes"}},
    "spec": {"containers": CONTAINERS, "volumes": [{"name": "tmp", "emptyDir": {}}]},
}
SIDECAR = {"name": "mesh", "image": "mesh:1", "resources": {"requests": {"cpu": "200m"}}}


def trial(kind="ReplicaSet", api_version="apps/v1", *, name="web-0", revision="", labels=(), changes=False):
    pod = b.pod(name, "shop").owner(kind, "web", "web-uid").on("n1").build()
    pod = msgspec.structs.replace(pod, labels=LabelSet(dict(labels)))
    template = TemplateKey("web-uid", revision)
    tried = tried_hand_over(pod) if changes else ()
    return try_creation(pod, OwnerRef(api_version, kind, "web", "web-uid"), template, changes=tried)


def answer(body, code=200):
    return Response(code, msgspec.json.encode(body))


def owner(uid="web-uid", *, revision="", **spec):
    status = {"updateRevision": revision} if revision else {}
    return answer({"metadata": {"uid": uid}, "spec": {"template": TEMPLATE, **spec}, "status": status})


def created(*, gates=(GATE, "other"), containers=(*CONTAINERS, SIDECAR)):
    spec = {"containers": list(containers), "schedulingGates": [{"name": gate} for gate in gates]}
    metadata = {"name": "web-x7k2p", "namespace": "shop", "labels": {"app": "web", "mesh": "on"}}
    return answer({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, 201)


def refusal(code, message="no", reason=""):
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    named = {"details": {"name": "shop", "kind": "namespaces"}} if "shop" in message else {}
    return answer(status | named, code)


@pytest.fixture
def transport(mocker):
    return mocker.create_autospec(Transport, instance=True)


@pytest.fixture
def sent(transport, mocker):
    """The effect of an action on a server that gives these answers in turn."""

    def run(action, *answers):
        transport.send.side_effect = answers
        sender = ApiSender(api=KubeApi(transport, NO_RETRY), gate=mocker.Mock(), still_leader=lambda: True)
        return sender.send(action)

    return run


@pytest.fixture
def tried(sent):
    """What the answer says of the replacement."""
    return lambda action, *answers: sent(action, *answers).creation


def posted(transport):
    request = transport.send.call_args.args[0]
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/pods")
    assert request.query["dryRun"] == "All"
    return msgspec.json.decode(request.body)


def test_the_answer_is_the_pod_as_admission_made_it_without_our_own_gate(tried):
    found = tried(trial(), owner(), created())
    assert found.outcome is Outcome.ADMITTED
    assert found.pod.spec.requests.cpu_milli == 700
    assert found.pod.spec.gates == ("other",)
    assert found.pod.labels.get("mesh") == "on"


def test_the_pod_is_that_of_the_template_which_the_server_has_now(tried, transport):
    tried(trial(), owner(), created())
    pod = posted(transport)
    assert pod["spec"] == TEMPLATE["spec"]
    assert pod["metadata"] == {
        "generateName": "web-",
        "namespace": "shop",
        "labels": {"app": "web"},
        "annotations": {"mesh": "yes"},
        "finalizers": [],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}],
    }  # fmt: skip


def test_the_next_pod_of_the_template_is_created_without_reading_it_again(sent, transport):
    first = sent(trial(), owner(), created())
    pod = posted(transport)
    other = b.pod("web-1", "shop").owner("ReplicaSet", "web", "web-uid").on("n2").build()
    again = try_creation(
        other, OwnerRef("apps/v1", "ReplicaSet", "web", "web-uid"), TemplateKey("web-uid"), first.read
    )
    transport.send.reset_mock()
    second = sent(again, created())
    assert second.creation.outcome is Outcome.ADMITTED
    assert (transport.send.call_count, posted(transport)) == (1, pod)
    assert second.read is None, "its age counts from the reading"
    assert sent(again, refusal(404, 'namespaces "shop" not found')).creation.outcome is Outcome.NO_EVIDENCE


def test_a_pod_of_a_stateful_set_has_its_identity_and_its_claims(tried, transport):
    claims = [{"metadata": {"name": "tmp"}}, {"metadata": {"name": "data"}}]
    server = owner(revision="web-2", serviceName="web-svc", volumeClaimTemplates=claims)
    tried(trial("StatefulSet", name="web-3", revision="web-2"), server, created())
    pod = posted(transport)
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "web-3",
        "apps.kubernetes.io/pod-index": "3",
        "controller-revision-hash": "web-2",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-3", "web-svc")
    assert [(v["name"], v["persistentVolumeClaim"]["claimName"]) for v in pod["spec"]["volumes"]] == [
        ("tmp", "tmp-web-3"),
        ("data", "data-web-3"),
    ]


def test_an_older_revision_of_a_stateful_set_is_read_from_its_controller_revision(tried, transport):
    old = {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": []}, "$patch": "replace"}
    stored = answer({"metadata": {}, "data": {"spec": {"template": old}}})
    found = tried(trial("StatefulSet", revision="web-1"), owner(revision="web-2"), stored, created())
    assert found.outcome is Outcome.ADMITTED
    _, read, _ = (call.args[0] for call in transport.send.call_args_list)
    assert read.path == "/apis/apps/v1/namespaces/shop/controllerrevisions/web-1"
    pod = posted(transport)
    assert pod["metadata"]["labels"]["app"] == "old"
    assert pod["metadata"]["labels"]["controller-revision-hash"] == "web-1"
    assert "$patch" not in pod["spec"]


def test_a_pod_of_an_indexed_job_keeps_its_index(tried, transport):
    index = {"batch.kubernetes.io/job-completion-index": "4"}
    tried(trial("Job", "batch/v1", labels=index), owner(), created())
    assert posted(transport)["metadata"]["labels"] == {"app": "web", **index}


@pytest.mark.parametrize(("code", "message", "outcome"), [
    (403, 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "shop"', Outcome.NO_RIGHT),
    (403, 'pods "web-x" is forbidden: exceeded quota: q, requested: cpu=1, used: cpu=1, limited: cpu=1', Outcome.NO_EVIDENCE),
    (403, 'pods "x" is forbidden: exceeded quota: q, requested: a=1,cpu=1, used: a=3,cpu=3, limited: a=3,cpu=2500m', Outcome.REFUSED),
    (403, 'pods "web-x" is forbidden: exceeded quota: q, requested: memory=3Gi, used: memory=2Gi, limited: memory=2Gi', Outcome.REFUSED),
    (403, 'pods "web-x" is forbidden: exceeded quota: q, requested: a=b, used: c=d, limited: a=f', Outcome.NO_EVIDENCE),
    (403, 'pods "web-x" is forbidden: failed quota: q: must specify limits.cpu for: main', Outcome.REFUSED),
    (403, 'pods "web-x" is forbidden: violates PodSecurity "restricted:latest"', Outcome.REFUSED),
    (422, "Pod is invalid", Outcome.REFUSED),
    (400, 'admission webhook "mesh" does not support dry run', Outcome.NO_EVIDENCE),
    (400, 'admission webhook "mesh" denied the request: no', Outcome.REFUSED),
    (500, 'admission webhook "mesh" denied the request: no', Outcome.REFUSED),
    (500, 'failed calling webhook "mesh": connection refused', Outcome.UNANSWERED),
    (503, "starting", Outcome.UNANSWERED),
    (429, "too many requests", Outcome.UNANSWERED),
    (401, "Unauthorized", Outcome.UNANSWERED),
    (404, 'namespaces "shop" not found', Outcome.NO_EVIDENCE),
])  # fmt: skip
def test_each_refusal_has_its_meaning(tried, transport, code, message, outcome):
    found = tried(trial(), owner(), refusal(code, message))
    assert (found.outcome, found.message) == (outcome, message)
    assert (found.pod is not None) is (outcome is Outcome.REFUSED)
    if found.pod is not None:
        assert (found.pod.spec, found.pod.refusal) == (None, message)
    assert transport.send.call_count == 2, "other moves wait meanwhile, so it is not tried again at once"


PATCHED = answer({"kind": "Pod", "metadata": {"name": "web-0"}})


def test_the_changes_of_a_hand_over_are_tried_first_and_change_nothing(tried, transport):
    assert tried(trial(changes=True), PATCHED, PATCHED, owner(), created()).outcome is Outcome.ADMITTED
    sent = [call.args[0] for call in transport.send.call_args_list]
    path = "/api/v1/namespaces/shop/pods/web-0"
    assert [request.path for request in sent[:2]] == [f"{path}/status", path]
    assert [request.method for request in sent[:2]] == ["PATCH", "PATCH"]
    assert all(request.query["dryRun"] == "All" for request in (*sent[:2], sent[-1]))
    nomination = msgspec.json.decode(sent[0].body)["status"]
    assert nomination == {"nominatedNodeName": None}, "the API server refuses to nominate a pod that is bound"


@pytest.mark.parametrize(("code", "message", "outcome"), [
    (403, 'pods "web-0" is forbidden: ValidatingAdmissionPolicy frozen denied request', Outcome.REFUSED),
    (422, 'pods "web-0" is forbidden: policy frozen', Outcome.REFUSED),
    (403, 'User "u" cannot patch resource "pods" in the namespace "shop"', Outcome.UNANSWERED),
    (500, 'failed calling webhook "mesh": connection refused', Outcome.UNANSWERED),
    (409, "the object has been modified", Outcome.UNANSWERED),
])  # fmt: skip
@pytest.mark.parametrize("before", [(), (PATCHED,)], ids=["nomination", "gate"])
def test_a_hand_over_that_admission_would_refuse_is_known_before_the_eviction(
    tried, before, code, message, outcome
):
    found = tried(trial(changes=True), *before, refusal(code, message))
    assert found.outcome is outcome
    assert message in found.message
    assert (found.pod is not None) is (outcome is Outcome.REFUSED)


@pytest.mark.parametrize(
    "no_evidence",
    [refusal(404, 'pods "web-0" in shop not found'), refusal(400, 'webhook "m" does not support dry run')],
)
def test_a_pod_that_is_gone_and_a_webhook_without_dry_runs_show_nothing_of_changes(tried, no_evidence):
    assert tried(trial(changes=True), no_evidence, PATCHED, owner(), created()).outcome is Outcome.ADMITTED


def test_no_answer_is_an_answer(tried):
    assert tried(trial(), owner(), TransportError("timed out")).outcome is Outcome.UNANSWERED
    assert tried(trial(), TransportError("timed out")).outcome is Outcome.UNANSWERED


@pytest.mark.parametrize(("read", "outcome"), [
    (refusal(404), Outcome.UNANSWERED),
    (owner(uid="another"), Outcome.UNANSWERED),
    (refusal(403), Outcome.NO_EVIDENCE),
], ids=["gone", "created again", "not to be read"])  # fmt: skip
def test_without_a_template_nothing_is_created(tried, transport, read, outcome):
    assert tried(trial(), read).outcome is outcome
    assert transport.send.call_count == 1


def test_a_controller_that_runs_dry_asks_nothing():
    shown = []
    effect = DryRunSender(shown.append).send(operation := object())
    assert (effect.creation, shown) == (None, [operation])
    effect = DryRunSender(shown.append).send(trial())
    assert effect.creation.outcome is Outcome.NO_EVIDENCE
