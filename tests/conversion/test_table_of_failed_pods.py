"""RemoveFailedPods: which failed pods are deleted. Those without an age have failed two hours ago."""

import msgspec
import pytest

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.conversion.policy_conversion import convert_policy
from rescheduler.kube.failed_pods import failed_pods
from rescheduler.model.times import format_seconds
from rescheduler.planning.failed_pods import to_delete

NOW_S = 1_800_000_000.0


class Pages:
    """An API server that has these pods."""

    def __init__(self, pods):
        self._pods = pods

    def list(self, _path, _query):
        yield msgspec.json.encode({"items": self._pods})


def pod(name="p", state=None, *, init=None, kind="ReplicaSet", ago_s=7200, reason=None, **meta):
    at = format_seconds(NOW_S - ago_s)
    owners = [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": True}] if kind else []
    head = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": at,
        "ownerReferences": owners,
    }
    states = {"containerStatuses": state, "initContainerStatuses": init}
    found = {key: [{"name": "c", "state": one}] for key, one in states.items() if one}
    return {
        "metadata": {**head, **meta},
        "status": {"phase": "Failed", "startTime": at, "reason": reason, **found},
    }


def terminated(reason, code=1):
    return {"terminated": {"reason": reason, "exitCode": code}}


def waiting(reason):
    return {"waiting": {"reason": reason}}


ERROR = terminated("Error")
CONFIG = "CreateContainerConfigError"
ANNOTATED = {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}}
ROWS = [
    ("a reason, and any will do", [pod(state=terminated("NodeAffinity"))], {"p"}, "{}", "{}"),
    ("without arguments: one that has failed an hour ago", [pod("new", ERROR, ago_s=3500), pod("old", ERROR)], {"old"}, "{}", "{}"),
    ("young, and age does not count", [pod(state=ERROR, ago_s=5)], {"p"}, "{minPodLifetimeSeconds: 0}", "{}"),
    ("younger than asked for", [pod(state=ERROR)], set(), "{minPodLifetimeSeconds: 10000}", "{}"),
    ("an exit code: the section stays off", [pod(state=ERROR)], set(), "{exitCodes: [1]}", "{}"),
    ("one of two reasons", [pod(state=terminated(CONFIG)), pod("q", ERROR)], {"p"}, f"{{reasons: [{CONFIG}, NodeAffinity]}}", "{}"),
    ("another reason", [pod(state=terminated("NodeAffinity"))], set(), f"{{reasons: [{CONFIG}]}}", "{}"),
    ("a reason of the pod itself", [pod(reason="Shutdown"), pod("q", ERROR, reason="Shutdown"), pod("r", ERROR)], {"p", "q"},
        "{reasons: [Shutdown]}", "{}"),
    ("what an init container waits for", [pod(init=waiting(CONFIG))], {"p"}, f"{{reasons: [{CONFIG}], includingInitContainers: true}}", "{}"),
    ("an owner of an excluded kind", [pod(state=ERROR), pod("q", ERROR, kind="Job")], {"q"}, "{excludeOwnerKinds: [ReplicaSet]}", "{}"),
    ("an owner of another kind", [pod(state=ERROR)], {"p"}, "{excludeOwnerKinds: [DaemonSet]}", "{}"),
    ("it is being deleted", [pod(state=ERROR, deletionTimestamp=format_seconds(NOW_S))], set(), "{}", "{}"),
    ("of a DaemonSet", [pod(state=ERROR, kind="DaemonSet")], set(), "{excludeOwnerKinds: [Job]}", "{}"),
    ("of a DaemonSet, which may go", [pod(state=ERROR, kind="DaemonSet")], {"p"}, "{}", "{evictDaemonSetPods: true}"),
    ("of a DaemonSet, which may go by its new name", [pod(state=ERROR, kind="DaemonSet")], {"p"}, "{}",
        "{podProtections: {defaultDisabled: [DaemonSetPods]}}"),
    ("the mirror of a static pod", [pod(state=ERROR, kind="Node")], set(), "{}", "{evictFailedBarePods: true}"),
    ("of nobody", [pod(state=ERROR, kind="")], set(), "{}", "{}"),
    ("of nobody, which may go", [pod(state=ERROR, kind="")], {"p"}, "{}", "{evictFailedBarePods: true}"),
    ("annotated to be left alone", [pod(state=ERROR, **ANNOTATED)], set(), "{}", "{noEvictionPolicy: Mandatory}"),
    ("annotated to be left alone if possible", [pod(state=ERROR, **ANNOTATED)], {"p"}, "{}", "{noEvictionPolicy: Preferred}"),
    ("namespaces to include beside others to exclude: descheduler refuses them", [pod(state=ERROR)], set(),
        "{namespaces: {include: [a], exclude: [b]}}", "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "goes", "arguments", "evictor"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])  # fmt: skip
def test_who_goes(pods, goes, arguments, evictor):
    text = f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {{name: DefaultEvictor, args: {evictor}}}
  - {{name: RemoveFailedPods, args: {arguments}}}
  plugins: {{deschedule: {{enabled: [RemoveFailedPods]}}}}
"""
    converted = convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))
    configuration = parse_configuration(converted.text, "out")
    rule, protections = configuration.failed_pods, configuration.inputs().protections
    gone = to_delete(failed_pods(Pages(pods)), rule, protections, NOW_S) if rule.enabled else ()
    assert {one.key.name for one in gone} == goes
