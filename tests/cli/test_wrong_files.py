"""Wrong manifests and documents: each is refused with where it is wrong; no traceback, nothing stored."""

import json
import textwrap

import pytest

from harness.builders import node

ROOM = "apiVersion: rescheduler.dev/v1alpha1\nkind: Reservation\nmetadata: {name: r}\n"
POD = "{spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}}"
FOR = "owners: [{object: {namespace: default, name: b}}]"
HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OLD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def kubeconfig(cluster='server: "http://127.0.0.1:1"'):
    return (
        f"apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n"
    )


# What is created, what the message names.
ROOMS = {
    "no owners": (f"spec: {{template: {POD}}}", "FILE:1: reservation/r: spec.owners is empty"),
    "spec is a list": ("spec: []", "FILE:1: reservation/r: "),
    "a typo": (f"spec: {{template: {POD}, {FOR}, owner: []}}", 'unknown field "spec.owner"'),
    "words for a duration": (f"spec: {{ttl: 5 minutes, template: {POD}, {FOR}}}", "reservation/r: "),
    "owners that are no list": (
        f"spec: {{template: {POD}, owners: {{a: b}}}}",
        "reservation/r: spec.owners: Expected `array | null`, got `object` (see kubectl explain reservation.spec.owners)",
    ),
    "a list for a node": (
        f"spec: {{template: {{spec: {{containers: [{{name: c}}], nodeName: [1]}}}}, {FOR}}}",
        "spec.template.spec.nodeName: Expected `str | null`, got `array` (see kubectl explain pod.spec.nodeName)",
    ),
    "a time in words": (f"spec: {{expires: tomorrow, template: {POD}, {FOR}}}", "reservation/r: "),
    "a time that is past": (
        f"spec: {{expires: '2020-01-01T00:00:00Z', template: {POD}, {FOR}}}",
        "reservation/r: spec.expires is past",
    ),
    "an operator": (
        f"spec: {{template: {POD}, owners: [{{labelSelector: {{matchExpressions: [{{key: a, operator: Is}}]}}}}]}}",
        "reservation/r: spec.owners[0].labelSelector",
    ),
    "an owner by what is missing": (
        f"spec: {{template: {POD}, owners: [{{labelSelector: {{matchExpressions: [{{key: a, operator: DoesNotExist}}]}}}}]}}",
        "spec.owners[0] says nothing by which a new pod can be found",
    ),
    "devices": (
        f"spec: {{template: {{spec: {{resourceClaims: [{{name: x}}], containers: [{{name: c, image: x}}]}}}}, {FOR}}}",
        "devices cannot be held",
    ),
}
MANIFESTS = {
    **{name: (ROOM + text, named) for name, (text, named) in ROOMS.items()},
    "a capital name": (f"{ROOM.replace('name: r', 'name: Big Room')}spec: {{template: {POD}, {FOR}}}", 'metadata.name: Invalid value: "Big Room"'),
    "no metadata": (ROOM.replace("{name: r}", "null"), "FILE:1: a Reservation needs metadata.name"),
    "metadata is a text": (ROOM.replace("{name: r}", "r"), "FILE:1: "),
    "another version": (ROOM.replace("v1alpha1", "v1"), "FILE:1: Reservation (rescheduler.dev/v1)"),
    "another kind": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "FILE:1: Pod (v1)"),
    "nothing": ("", "FILE: there is no Reservation in it"),
    "a tab": ("kind: Reservation\nmetadata:\n\tname: r\n", "FILE:3: not YAML: the line is indented with a tab"),
    "the second is wrong": (f"{ROOM}spec: {{template: {POD}, {FOR}}}\n---\n{ROOM.replace('name: r', 'name: s')}spec: {{}}\n", "FILE:6: reservation/s: "),
}  # fmt: skip
CONFIGURATIONS = {
    "a key twice": (f"{HEAD}interval: 1m\ninterval: 2m\n", ":4: duplicate key 'interval'"),
    "a policy as a text": (f"{HEAD}policies: [NodeTaints]\n", ":3: policies[0]: has no name"),
    "policies as a mapping": (f"{HEAD}policies: {{NodeTaints: {{}}}}\n", ":3: policies: is not a list"),
    "a label with a blank": (f"{HEAD}policies: [{{name: NodeTaints, labelSelector: {{matchLabels: {{'a b': c}}}}}}]\n",
        "policies[0].labelSelector: 'a b' is no key of a label"),
    "a value with a blank": (f"{HEAD}policies: [{{name: NodeTaints, labelSelector: {{matchLabels: {{a: b c}}}}}}]\n",
        "policies[0].labelSelector: 'b c' is no value of a label"),
    "a key in an expression": (f"{HEAD}policies: [{{name: NodeTaints, labelSelector: {{matchExpressions: [{{key: -a, operator: Exists}}]}}}}]\n",
        "'-a' is no key of a label"),
    "a label of nodes": (f"{HEAD}policies: [{{name: NodeTaints, nodeSelector: {{'pool=': a}}}}]\n",
        "policies[0].nodeSelector: 'pool=' is no key of a label"),
    "a protected label": (f"{HEAD}protections: {{labelSelector: {{matchLabels: {{a/b/c: d}}}}}}\n", ":3: protections"),
    "thresholds crossed": (f"{HEAD}policies: [{{name: LowNodeUtilization, thresholds: {{cpu: 80}}, targetThresholds: {{cpu: 20}}}}]\n",
        "above its targetThreshold 20"),
    "two documents": (f"{HEAD}---\n{HEAD}", "a second document begins here"),
    "no such kind": (HEAD.replace("Rescheduler", ""), ":2: kind: is 'Configuration'"),
    "a ConfigMap without it": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {other.yaml: x}\n",
        ":4: data.config.yaml: is missing"),
    "an empty ConfigMap": ("apiVersion: v1\nkind: ConfigMap\n", ":1: data.config.yaml: is missing"),
    "a dump": ('{"kind": "List", "apiVersion": "v1", "items": []}', ":1: kind: is 'List'"),
}  # fmt: skip
CONVERTED = {
    "a later version": (OLD.replace("v1alpha2", "v1"), ":1: apiVersion: is 'descheduler/v1'"),
    "a number of profiles": (f"{OLD}profiles: 5\n", ":3: profiles: is a whole number, not a list"),
    "soon": (
        f"{OLD}profiles:\n- name: a\n  pluginConfig: [{{name: PodLifeTime, args: {{maxPodLifeTimeSeconds: soon}}}}]\n  plugins: {{deschedule: {{enabled: [PodLifeTime]}}}}\n",
        "maxPodLifeTimeSeconds: is a text, not a whole number",
    ),
    "a pod": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
        "the kind is 'Pod', and no policy is in it",
    ),
}
SCHEDULERS = {
    "a pod": ("apiVersion: v1\nkind: Pod\n", ":4: schedulerConfiguration.apiVersion: expected kubescheduler"),
    "a mapping of profiles": (f"{SCHEDULER}profiles: {{a: b}}\n", ":6: schedulerConfiguration.profiles: not a Kube"),
    "an unknown field": (f"{SCHEDULER}parallelism: 16\nprofils: []\n", ":7: schedulerConfiguration.profils: not a KubeSchedulerConfiguration"),
    "a profile twice": (f"{SCHEDULER}profiles:\n- schedulerName: a\n- schedulerName: a\n", ":8: schedulerConfiguration.profiles[1]: profiles"),
    "a typo of a plugin": (f"{SCHEDULER}profiles:\n- plugins:\n    score:\n      disabled:\n      - name: NodeAffinty\n",
        ".score.disabled[0]: plugins.score: unknown plugin 'NodeAffinty'; did you mean NodeAffinity?"),
    "a plugin at a wrong point": (f"{SCHEDULER}profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: ImageLocality\n",
        ".filter.enabled[0]: plugins.filter: ImageLocality has no part in that extension point ("),
    "a text for a weight": (f"{SCHEDULER}profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args:\n      hardPodAffinityWeight: x\n",
        ":10: schedulerConfiguration.profiles[0].pluginConfig[0].args.hardPodAffinityWeight"),
    "a heavy weight": (f"{SCHEDULER}profiles: [{{plugins: {{score: {{enabled: [{{name: NodeAffinity, weight: heavy}}]}}}}}}]\n",
        "score.enabled[0].weight"),
}  # fmt: skip
CONFIGURATIONS |= {
    f"scheduler: {name}": (f"{HEAD}schedulerConfiguration:\n{textwrap.indent(text, '  ')}", named)
    for name, (text, named) in SCHEDULERS.items()
}
KUBECONFIGS = {
    "no base64": (kubeconfig('server: "https://h", certificate-authority-data: "!!"'), "it must be base64"),
    "no such context": (kubeconfig().replace("current-context: c", "current-context: x"), "no context 'x'"),
}
FILES = {
    "reserve create -f": MANIFESTS,
    "validate": CONFIGURATIONS,
    "convert": CONVERTED,
    "status --kubeconfig": KUBECONFIGS,
}
WRONG = [(line, name) for line, wrong in FILES.items() for name in wrong]
BY_SERVER = ("a typo", "a capital name")
"""What only the API server knows."""


@pytest.fixture(scope="module", autouse=True)
def one_node(cluster):
    body = node("n1").cpu(4).manifest()
    body["metadata"] = {"name": "n1"}
    cluster[0].create("/api/v1/nodes", body).expect()


@pytest.mark.parametrize(("line", "name"), WRONG, ids=[f"{line}: {name}" for line, name in WRONG])
def test_a_wrong_file_is_refused_with_where_it_is_wrong(command, cluster, tmp_path, line, name):
    api, live = cluster
    text, named = FILES[line][name]
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    words = [*line.split(), str(path)]
    done = command(*words, *(["--kubeconfig", live, "--no-wait"] if line.startswith("reserve") else []))
    assert done.exit_code == (1 if name in BY_SERVER else 2), done.output
    assert done.stdout == ""
    assert named.replace("FILE", str(path)) in done.stderr
    assert str(path) in done.stderr or name in BY_SERVER
    assert "Traceback" not in done.output
    assert api.get("/apis/rescheduler.dev/v1alpha1/reservations").items == []


def test_a_good_file_is_taken(command, cluster, tmp_path):
    api, live = cluster
    path = tmp_path / "good.yaml"
    path.write_text(f"{ROOM}spec: {{template: {POD}, {FOR}}}\n")
    done = command("reserve", "create", "-f", path, "--no-wait", "--kubeconfig", live, "-o", "json")
    assert done.exit_code == 0, done.output
    assert [one["metadata"]["name"] for one in json.loads(done.stdout)["items"]] == ["r"]
    api.delete("/apis/rescheduler.dev/v1alpha1/reservations/r").expect()
