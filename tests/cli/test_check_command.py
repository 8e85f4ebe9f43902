"""``rescheduler check``: each line in order and broken, with a remedy that exists and mends it, and the exit code."""

import json
import re
import shlex
import time
from datetime import UTC, datetime

import click
import pytest

from harness.controlplane import manifests
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.live_controller import GUARD, RESPONDER_POLICY, WEBHOOK
from rescheduler.cli.main import main
from rescheduler.kube.transport import Response
from tests.waiting import until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
GATE = f"{ADMISSION}/mutatingadmissionpolicybindings/gate.rescheduler.dev"
CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
ORDER = (
    "api-server", "crds", "policies", "gate", "webhook", "guard", "responder", "rights", "configuration",
    "controller", "gated-pods", "metrics", "autoscaler",
)  # fmt: skip
FORBIDDEN = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}
MISSING = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "gone", "code": 404}


class Answers:
    """The connection of a command, with other answers to some requests. ``told``: (method, regular expression of the path, answer)."""

    def __init__(self, transport, told):
        self._transport, self._told = transport, told

    def send(self, request):
        for method, path, answer in self._told:
            if method == request.method and re.fullmatch(path, request.path):
                found = answer(json.loads(request.body or b"{}")) if callable(answer) else answer
                if found is not None:
                    code = found.get("code", 200) if found.get("kind") == "Status" else 200
                    return Response(code, json.dumps(found).encode())
        return self._transport.send(request)

    def stream(self, request):
        return self._transport.stream(request)


@pytest.fixture
def answers(monkeypatch):
    told = []
    real = NamedCluster.connected
    monkeypatch.setattr(NamedCluster, "connected", lambda self: Answers(real(self), told))
    return lambda method, path, answer: told.append((method, path, answer))


@pytest.fixture
def check(work, command):
    """(exit code, lines by name)."""

    def run(*words):
        done = command("check", *words, "-o", "json", "--kubeconfig", work.kubeconfig)
        assert done.stdout, done.stderr
        return done.exit_code, {one["name"]: one for one in json.loads(done.stdout)["checks"]}

    return run


def works(remedy):
    """Every command of a remedy is one, with flags that it has, and every path is there."""
    commands = re.findall(r"(?:kubectl|rescheduler) [^,;)|]+", remedy)
    for words in map(shlex.split, commands):
        if words[0] == "kubectl":
            for path in (word for word in words if word.startswith("manifests")):
                assert manifests.load(manifests.FOLDER / path.removeprefix("manifests").strip("/"))
            continue
        group, rest = main, words[1:]
        while isinstance(group, click.Group):
            group, rest = group.commands[rest[0]], rest[1:]
        assert group.make_context(words[1], list(rest)) is not None
    return bool(commands)


def reviewed(refused):
    """Of access reviews: this verb of this resource is refused."""

    def answer(body):
        asked = body["spec"]["resourceAttributes"]
        allowed = (asked["verb"], asked["resource"]) != refused
        return {"kind": body["kind"], "status": {"allowed": allowed}}

    return answer


def test_all_lines_are_there_in_order_and_none_is_broken(check):
    code, found = check()
    assert (code, tuple(found)) == (0, ORDER)
    assert {one["state"] for one in found.values()} == {"OK", "Unused"}
    assert [name for name, one in found.items() if "remedy" in one] == []
    in_order = {name for name, one in found.items() if one["state"] == "OK"}
    assert in_order >= {
        "api-server", "crds", "policies", "gate", "rights", "configuration", "controller", "gated-pods",
    }  # fmt: skip


NODES_AND_PODS = [{"name": "nodes", "kind": "NodeMetrics"}, {"name": "pods", "kind": "PodMetrics"}]
RESOURCES = {"kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": NODES_AND_PODS}
REVIEWS = "/apis/authorization.k8s.io/v1/.*"


def moved(reason):
    """The only PodMigration has ended like this."""
    at = "2026-11-21T10:00:00Z"
    status = {"phase": "Failed", "reason": reason, "finishedAt": at, "startedAt": at}
    meta = {"name": "m", "namespace": "shop", "uid": "u", "creationTimestamp": at}
    move = {"metadata": meta, "spec": {"podRef": {"name": "web-1"}}, "status": status}
    listed = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "PodMigrationList"}
    return {**listed, "metadata": {"resourceVersion": "1"}, "items": [move]}


def gated_for(seconds):
    at = datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    spec = {"containers": [{"name": "c"}], "schedulingGates": [{"name": "rescheduler.dev/hold"}]}
    meta = {"name": "web-1", "namespace": "shop", "creationTimestamp": at, "uid": "u"}
    return {
        "kind": "PodList",
        "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}],
    }


@pytest.fixture
def configured(work):
    before = work.api.get(CONFIG_MAP).body["data"]
    yield lambda text: work.api.patch(CONFIG_MAP, {"data": {"config.yaml": HEAD + text}}).expect()
    work.api.patch(CONFIG_MAP, {"data": before}).expect()


OLD = ("GET", "/version", {"major": "1", "minor": "29", "gitVersion": "v1.29.3"})
LINES = {
    # What it is about: (line, configuration, answers, state, message, remedy)
    "an old API server": ("api-server", "", [OLD], "Broken", "v1.29.3: Kubernetes 1.30 or newer is needed", "^upgrade the cluster"),
    "a guard without certificate": ("guard", "", [("GET", GUARD, {"webhooks": [{"clientConfig": {}}]})], "Broken",
        "registered without a certificate", "^kubectl -n rescheduler logs deployment/rescheduler"),
    "a guard that nobody serves": ("guard", "", [("GET", GUARD, {"kind": "ValidatingWebhookConfiguration"})], "Broken", "", "."),
    "a webhook without certificate": ("webhook", "", [("GET", WEBHOOK, {"webhooks": [{"clientConfig": {"caBundle": ""}}]})], "Broken",
        "registered without a certificate", "^kubectl -n rescheduler logs"),
    "a responder without rights": ("responder", "", [
        ("GET", RESPONDER_POLICY, {"kind": "MutatingAdmissionPolicy"}), ("POST", REVIEWS, reviewed(("patch", "evictions"))),
    ], "Broken", "ServiceAccount rescheduler/rescheduler may not report", "^kubectl apply -k manifests/components/responder"),
    "a right that is missing": ("rights", "", [("POST", REVIEWS, reviewed(("create", "pods")))], "Broken", "may not create pods",
        r"^kubectl apply -k manifests/ \(or helm upgrade\)"),
    "a webhook that is asked for and not registered": ("webhook", "gate: {mode: Webhook}\npolicies: []\n", [], "Broken",
        "^it is needed here, and not registered$", "^kubectl apply -k manifests/overlays/webhook$"),
    "a policy by usage without metrics": ("metrics", "policies: [{name: LowNodeUtilization, usage: actual}]\n", [], "Broken",
        "LowNodeUtilization goes by it", "^install metrics-server$"),
    "soft moves, which need no gate": ("gate", "mode: Soft\npolicies: []\n", [], "Unused", "^mode Soft evicts without it$", ""),
    "a gate that is installed and not followed": ("gate", "", [("GET", ".*/podmigrations", moved("GateNotInForce"))], "Broken",
        "not in force, so that no pod is moved: shop/web-1", "^restart the API servers"),
    "a move that failed for another reason": ("gate", "", [("GET", ".*/podmigrations", moved("TargetLost"))], "OK", "", ""),
    "a pod that waits long at the gate": ("gated-pods", "", [("GET", "/api/v1/pods", lambda _: gated_for(30))], "OK",
        "1 pod waits at the gate; shop/web-1 since", ""),
    "a pod that waits too long at the gate": ("gated-pods", "", [("GET", "/api/v1/pods", lambda _: gated_for(600))], "Broken", "",
        "^rescheduler explain pod shop/web-1$"),
}  # fmt: skip
WITHOUT_COMMAND = ("upgrade the cluster", "install metrics-server")


@pytest.mark.parametrize("row", LINES.values(), ids=LINES)
def test_each_line_says_its_state_and_what_mends_it(check, answers, configured, row):
    line, configuration, told, state, message, remedy = row
    if configuration:
        configured(configuration)
    for one in told:
        answers(*one)
    code, found = check()
    said = found[line]
    assert (code, said["state"]) == (int(state == "Broken"), state), said
    assert re.search(message, said["message"]), said
    assert re.search(remedy, said.get("remedy", "")), said
    if state == "Broken" and not said["remedy"].startswith(WITHOUT_COMMAND):
        assert works(said["remedy"])


def restored(api, paths):
    """Deletes these objects, and applies the manifests, as the remedy says."""
    for path in paths:
        api.delete(path).expect()
        # Custom objects go before their definition does.
        until(lambda path=path: api.get(path).status == 404)


@pytest.mark.parametrize(("line", "paths", "message", "folder"), [
    ("crds", ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/headrooms.rescheduler.dev"],
        "headrooms of rescheduler.dev/v1alpha1 are not served", "crds"),
    ("gate", [GATE], "missing: no pod is moved", ""),
    ("policies", [f"{ADMISSION}/validatingadmissionpolicies/controller-pods.rescheduler.dev"],
        "admission policies are missing: controller-pods.rescheduler.dev", ""),
], ids=["crds", "gate", "policies"])  # fmt: skip
def test_the_remedy_mends_what_is_missing(check, work, line, paths, message, folder):  # noqa: PLR0917
    wanted = [one for one in manifests.load(manifests.FOLDER / folder) if manifests.path_of(one) in paths]
    assert len(wanted) == len(paths)
    restored(work.api, paths)
    try:
        code, found = check()
        assert (code, found[line]["state"]) == (1, "Broken")
        assert message in found[line]["message"]
        assert works(found[line]["remedy"])
        assert f"kubectl apply -k manifests/{folder}" in found[line]["remedy"]
    finally:
        manifests.apply(work.api, wanted)
    assert check()[1][line]["state"] == "OK"


def test_policies_of_another_version_are_told_with_the_command(check, work):
    path = f"{ADMISSION}/validatingadmissionpolicies/controller-pods.rescheduler.dev"
    version = work.api.get(path).body["metadata"]["labels"]["app.kubernetes.io/version"]
    try:
        for other, remedy in (("0.0.9", "kubectl apply -k manifests/"), ("9.0.0", "--prune")):
            labels = {"metadata": {"labels": {"app.kubernetes.io/version": other}}}
            work.api.patch(path, labels).expect()
            code, found = check()
            assert (code, found["policies"]["state"]) == (1, "Broken")
            assert f"controller-pods.rescheduler.dev is of {other}" in found["policies"]["message"]
            assert remedy in found["policies"]["remedy"]
    finally:
        work.api.patch(path, {"metadata": {"labels": {"app.kubernetes.io/version": version}}}).expect()


def test_a_configuration_that_is_refused_is_shown_by_the_remedy(check, work, configured, command):
    configured("aggresiveness: 0.3\n")
    code, found = check()
    assert (code, found["configuration"]["state"]) == (1, "Broken")
    assert found["configuration"]["remedy"] == (
        "kubectl -n rescheduler get configmap rescheduler -o yaml | rescheduler validate -"
    )
    stored = json.dumps(work.api.get(CONFIG_MAP).body)
    done = command("validate", "-", input=stored)
    assert (done.exit_code, "aggressiveness" in done.stderr) == (2, True)
    configured("aggressiveness: 0.3\npolicies: []\n")
    assert check()[1]["configuration"]["message"] == "in force; policies: none"


def test_without_a_controller_gated_pods_and_controller_are_broken(command, work, answers):
    answers("GET", "/api/v1/pods", gated_for(600))
    words = ("--controller-namespace", "default", "-o", "json", "--kubeconfig", work.kubeconfig)
    done = command("check", *words)
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert done.exit_code == 1
    assert "nobody lets them go" in found["gated-pods"]["message"]
    assert works(found["gated-pods"]["remedy"])
    assert (found["controller"]["state"], bool(found["controller"]["remedy"])) == ("Broken", True)
    assert "runs outside of the cluster" in found["rights"]["message"]


@pytest.mark.parametrize("path", [r"/api/v1/pods", rf"{ADMISSION}/validatingadmissionpolicies"])
def test_what_may_not_be_looked_at_is_unknown_and_no_success(check, answers, path):
    answers("GET", path, FORBIDDEN)
    code, found = check()
    states = {one["state"] for one in found.values()}
    assert (code, "Unknown" in states, "Broken" in states) == (3, True, False), found


def test_text_names_what_is_broken_and_not_known_at_the_end(command, work, answers):
    done = command("check", "--kubeconfig", work.kubeconfig)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "everything is in order"), done.output
    answers(*OLD)
    answers("GET", "/api/v1/pods", FORBIDDEN)
    done = command("check", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "broken: api-server; not known: gated-pods"
    assert "mend: upgrade the cluster" in done.stdout


def test_an_autoscaler_and_metrics_that_are_there(check, answers):
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} +0000 UTC"
    meta = {"name": "s", "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": at}}
    status = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"status": "up"}}
    answers("GET", "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status", status)
    answers("GET", "/apis/metrics.k8s.io/v1beta1", RESOURCES)
    found = check()[1]
    assert (found["autoscaler"]["state"], found["metrics"]["state"]) == ("OK", "OK")


def test_before_an_installation_each_line_may_be_wrong(check, answers):
    code, found = check("--pre")
    assert (code, list(found)) == (0, ["api-server", "gate", "rights", "installed"])
    answers(*OLD)
    answers("POST", REVIEWS, reviewed(("create", "clusterroles")))
    code, found = check("--pre")
    assert code == 1
    assert (found["api-server"]["state"], found["rights"]["state"]) == ("Broken", "Broken")
    assert found["rights"]["message"] == "you may not create clusterroles"
    assert "is installed already" in found["installed"]["message"]
