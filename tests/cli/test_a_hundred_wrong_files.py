"""A hundred wrong manifests, documents and flags: each is refused with where it is wrong; no traceback, nothing stored."""

import json

import pytest

from rescheduler.testing.builders import node, pod

ROOM = "apiVersion: rescheduler.dev/v1alpha1\nkind: Reservation\nmetadata: {name: r}\n"
POD = "{spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}}"
FOR = "owners: [{object: {namespace: default, name: b}}]"
HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OLD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def kubeconfig(cluster='server: "http://127.0.0.1:1"', user="{}", context="cluster: c, user: u"):
    return (
        f"apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
        f"contexts: [{{name: c, context: {{{context}}}}}]\nusers: [{{name: u, user: {user}}}]\ncurrent-context: c\n"
    )


def requests(text):
    return POD.replace("cpu: 1", text)


# What is created, what the message names.
ROOMS = {
    "no owners": (f"spec: {{template: {POD}}}", "FILE:1: reservation/r: spec.owners is empty"),
    "spec is a list": ("spec: []", "FILE:1: reservation/r: "),
    "a typo": (f"spec: {{template: {POD}, {FOR}, owner: []}}", 'unknown field "spec.owner"'),
    "words for a duration": (f"spec: {{ttl: 5 minutes, template: {POD}, {FOR}}}", "reservation/r: "),
    "words for an amount": (
        f"spec: {{template: {requests('cpu: lots')}, {FOR}}}",
        "reservation/r: spec.template.spec.containers[0].resources.requests.cpu: quantity 'lots' is not a number",
    ),
    "less than nothing": (
        f"spec: {{template: {requests('cpu: -1')}, {FOR}}}",
        "requests.cpu: quantity -1 is negative (write an amount of 0 or more",
    ),
    "owners that are no list": (
        f"spec: {{template: {POD}, owners: {{a: b}}}}",
        "reservation/r: spec.owners: Expected `array | null`, got `object` (see kubectl explain reservation.spec.owners)",
    ),
    "a list for a node": (
        f"spec: {{template: {{spec: {{containers: [{{name: c}}], nodeName: [1]}}}}, {FOR}}}",
        "spec.template.spec.nodeName: Expected `str | null`, got `array` (see kubectl explain pod.spec.nodeName)",
    ),
    "no template": (f"spec: {{{FOR}}}", "reservation/r: spec.template is missing (give the containers"),
    "a time in words": (f"spec: {{expires: tomorrow, template: {POD}, {FOR}}}", "reservation/r: "),
    "a time that is past": (
        f"spec: {{expires: '2020-01-01T00:00:00Z', template: {POD}, {FOR}}}",
        "reservation/r: spec.expires is past",
    ),
    "two ends": (
        f"spec: {{ttl: 1h, expires: '2099-01-01T00:00:00Z', template: {POD}, {FOR}}}",
        "spec.ttl and spec.expires exclude each other (give one)",
    ),
    "an operator": (
        f"spec: {{template: {POD}, owners: [{{labelSelector: {{matchExpressions: [{{key: a, operator: Is}}]}}}}]}}",
        "reservation/r: spec.owners[0].labelSelector",
    ),
    "an owner of nothing": (f"spec: {{template: {POD}, owners: [{{}}]}}", "spec.owners[0] names no pod"),
    "an owner by what is missing": (
        f"spec: {{template: {POD}, owners: [{{labelSelector: {{matchExpressions: [{{key: a, operator: DoesNotExist}}]}}}}]}}",
        "spec.owners[0] says nothing by which a new pod can be found",
    ),
    "several pods of no size": (
        f"spec: {{allocateOnce: false, template: {requests('cpu: 0')}, {FOR}}}",
        "several pods cannot share a room of no size",
    ),
    "devices": (
        f"spec: {{template: {{spec: {{resourceClaims: [{{name: x}}], containers: [{{name: c, image: x}}]}}}}, {FOR}}}",
        "devices cannot be held",
    ),
}
MANIFESTS = {
    **{name: (ROOM + text, named) for name, (text, named) in ROOMS.items()},
    "a capital name": (
        f"{ROOM.replace('name: r', 'name: Big Room')}spec: {{template: {POD}, {FOR}}}",
        'metadata.name: Invalid value: "Big Room"',
    ),
    "no metadata": (ROOM.replace("{name: r}", "null"), "FILE:1: a Reservation needs metadata.name"),
    "metadata is a text": (ROOM.replace("{name: r}", "r"), "FILE:1: "),
    "another version": (ROOM.replace("v1alpha1", "v1"), "FILE:1: Reservation (rescheduler.dev/v1)"),
    "another kind": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "FILE:1: Pod (v1)"),
    "nothing": ("", "FILE: there is no Reservation in it"),
    "a tab": (
        "kind: Reservation\nmetadata:\n\tname: r\n",
        "FILE:3: not YAML: the line is indented with a tab",
    ),
    "the second is wrong": (
        f"{ROOM}spec: {{template: {POD}, {FOR}}}\n---\n{ROOM.replace('name: r', 'name: s')}spec: {{}}\n",
        "FILE:6: reservation/s: ",
    ),
}
CONFIGURATIONS = {
    "a list": ("- a\n", ":1: expected a mapping"),
    "a key twice": (f"{HEAD}interval: 1m\ninterval: 2m\n", ":4: duplicate key 'interval'"),
    "a number for a duration": (f"{HEAD}interval: 60\n", ":3: interval: is 60, not a duration"),
    "a negative duration": (f"{HEAD}interval: -1m\n", ":3: interval: is -1m (must be at least 1s)"),
    "too much": (f"{HEAD}aggressiveness: 1.5\n", ":3: aggressiveness: is 1.5 (use a number from 0 to 1"),
    "a misspelt level": (f"{HEAD}aggressiveness: agressive\n", "conservative, balanced, aggressive"),
    "a misspelt mode": (f"{HEAD}mode: ReserveLast\n", "did you mean ReserveFirst?"),
    "a misspelt policy": (f"{HEAD}policies: [{{name: NodeTaint}}]\n", "did you mean NodeTaints?"),
    "a policy as a text": (f"{HEAD}policies: [NodeTaints]\n", ":3: policies[0]: has no name"),
    "policies as a mapping": (f"{HEAD}policies: {{NodeTaints: {{}}}}\n", ":3: policies: is not a list"),
    "a label with a blank": (
        f"{HEAD}policies: [{{name: NodeTaints, labelSelector: {{matchLabels: {{'a b': c}}}}}}]\n",
        "policies[0].labelSelector: 'a b' is no key of a label",
    ),
    "a value with a blank": (
        f"{HEAD}policies: [{{name: NodeTaints, labelSelector: {{matchLabels: {{a: b c}}}}}}]\n",
        "policies[0].labelSelector: 'b c' is no value of a label",
    ),
    "a key in an expression": (
        f"{HEAD}policies: [{{name: NodeTaints, labelSelector: {{matchExpressions: [{{key: -a, operator: Exists}}]}}}}]\n",
        "'-a' is no key of a label",
    ),
    "a label of nodes": (
        f"{HEAD}policies: [{{name: NodeTaints, nodeSelector: {{'pool=': a}}}}]\n",
        "policies[0].nodeSelector: 'pool=' is no key of a label",
    ),
    "a protected label": (
        f"{HEAD}protections: {{labelSelector: {{matchLabels: {{a/b/c: d}}}}}}\n",
        ":3: protections",
    ),
    "a namespace": (
        f"{HEAD}policies: [{{name: NodeTaints, namespaces: {{include: [Shop]}}}}]\n",
        "policies[0].namespaces.include[0]: 'Shop' is no namespace",
    ),
    "a pattern of namespaces": (
        f"{HEAD}policies: [{{name: NodeTaints, namespaces: {{exclude: ['team-*']}}}}]\n",
        "policies[0].namespaces.exclude[0]: 'team-*' is no namespace",
    ),
    "both namespaces": (
        f"{HEAD}policies: [{{name: NodeTaints, namespaces: {{include: [a], exclude: [b]}}}}]\n",
        "keep one of them",
    ),
    "thresholds crossed": (
        f"{HEAD}policies: [{{name: LowNodeUtilization, thresholds: {{cpu: 80}}, targetThresholds: {{cpu: 20}}}}]\n",
        "above its targetThreshold 20",
    ),
    "a threshold of 180": (
        f"{HEAD}policies: [{{name: LowNodeUtilization, thresholds: {{cpu: 180}}}}]\n",
        "must be a percentage from 0 to 100",
    ),
    "minute 61": (f"{HEAD}limits: {{windows: [{{cron: '61 * * * *', duration: 1h}}]}}\n", "Bad minute"),
    "a zone on Mars": (
        f"{HEAD}limits: {{windows: [{{cron: '1 * * * *', duration: 1h, timeZone: Mars/North}}]}}\n",
        "'Mars/North' is not in the IANA data base",
    ),
    "a port": (f"{HEAD}server: {{port: 70000}}\n", ":3: server.port: is 70000 (must be at most 65535)"),
    "ftp": (f"{HEAD}gate: {{url: 'ftp://x'}}\n", ":3: gate.url: is 'ftp://x' (write https://HOST"),
    "no url": (f"{HEAD}usage: {{prometheus: {{url: not a url}}}}\n", ":3: usage.prometheus.url"),
    "yes": (f"{HEAD}guard: {{enabled: 'yes'}}\n", ":3: guard.enabled: is a text, not true or false"),
    "a day": (f"{HEAD}protections: {{minAge: 1d}}\n", "write a duration such as 90s, 5m or 1h30m"),
    "a share of moves": (f"{HEAD}limits: {{movesAtOnce: 50%}}\n", "is a text, not a whole number"),
    "two documents": (f"{HEAD}---\n{HEAD}", "a second document begins here"),
    "the next version": (HEAD.replace("v1alpha1", "v1"), ":1: apiVersion: is 'rescheduler.dev/v1'"),
    "no such kind": (HEAD.replace("Rescheduler", ""), ":2: kind: is 'Configuration'"),
    "a ConfigMap without it": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {other.yaml: x}\n",
        ":4: data.config.yaml: is missing",
    ),
    "an empty ConfigMap": ("apiVersion: v1\nkind: ConfigMap\n", ":1: data.config.yaml: is missing"),
    "a dump": ('{"kind": "List", "apiVersion": "v1", "items": []}', ":1: kind: is 'List'"),
}
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
    "a pod": ("apiVersion: v1\nkind: Pod\n", "FILE:1: expected kubescheduler.config.k8s.io/v1"),
    "a mapping of profiles": (f"{SCHEDULER}profiles: {{a: b}}\n", "FILE:3: not a KubeSchedulerConfiguration"),
    "an unknown field": (
        f"{SCHEDULER}parallelism: 16\nprofils: []\n",
        "FILE:4: not a KubeSchedulerConfiguration",
    ),
    "extenders": (f"{SCHEDULER}parallelism: 16\nextenders: [{{urlPrefix: x}}]\n", "FILE:4: extenders"),
    "a profile twice": (
        f"{SCHEDULER}profiles:\n- schedulerName: a\n- schedulerName: a\n",
        "FILE:5: profiles",
    ),
    "a typo of a plugin": (
        f"{SCHEDULER}profiles:\n- plugins:\n    score:\n      disabled:\n      - name: NodeAffinty\n",
        "FILE:7: plugins.score: unknown plugin 'NodeAffinty'; did you mean NodeAffinity?",
    ),
    "a plugin at a wrong point": (
        f"{SCHEDULER}profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: ImageLocality\n",
        "FILE:7: plugins.filter: ImageLocality has no part in that extension point (",
    ),
    "arguments of no plugin": (
        f"{SCHEDULER}profiles:\n- pluginConfig:\n  - name: NodeAffinity\n  - name: Nope\n",
        "FILE:6: pluginConfig: unknown plugin 'Nope' (",
    ),
    "a text for a weight": (
        f"{SCHEDULER}profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args:\n      hardPodAffinityWeight: x\n",
        "FILE:7: pluginConfig of InterPodAffinity",
    ),
    "a weight of 101": (
        f"{SCHEDULER}profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: {{hardPodAffinityWeight: 101}}\n",
        "FILE:5: pluginConfig of InterPodAffinity: hardPodAffinityWeight 101 is not in 0..100 (",
    ),
    "two documents": (f"{SCHEDULER}---\n{SCHEDULER}", "FILE:4: a second document begins here (keep one"),
    "a heavy weight": (
        f"{SCHEDULER}profiles: [{{plugins: {{score: {{enabled: [{{name: NodeAffinity, weight: heavy}}]}}}}}}]\n",
        "score.enabled[0].weight",
    ),
}
KUBECONFIGS = {
    "no such user": (kubeconfig(context="cluster: c, user: nobody"), "names an unknown user 'nobody'"),
    "no such cluster": (kubeconfig(context="cluster: d, user: u"), "names an unknown cluster 'd'"),
    "no base64": (kubeconfig('server: "https://h", certificate-authority-data: "!!"'), "it must be base64"),
    "no such plugin": (
        kubeconfig(
            user="{exec: {apiVersion: client.authentication.k8s.io/v1, command: nosuchplugin, interactiveMode: Never}}"
        ),
        "credential plugin 'nosuchplugin'",
    ),
    "no scheme": (kubeconfig("server: 127.0.0.1"), "no http(s) server address (set its server)"),
    "no such context": (kubeconfig().replace("current-context: c", "current-context: x"), "no context 'x'"),
}
FLAGS = [
    ("reserve create --name a --cpu 1 --owner-pod Bad_Name", "--owner-pod: 'Bad_Name' is no name"),
    ("reserve create --name a --cpu 0 --owner-selector app=x", "cpu: 0 holds nothing"),
    ("reserve create --name a --cpu 1,5 --owner-selector app=x", "'1,5' is not a number"),
    ("reserve create --name a --cpu 1 --owner-pod p --owner-selector app=x", "give either"),
    ("reserve create --name a --request cpu=1 --cpu 2 --owner-selector app=x", "--request: cpu is given twice"),
    ("reserve create --name a --request cpu=1 --request cpu=2 --owner-selector app=x", "cpu is given twice"),
    ("reserve create --name a --request nvidia.com/gpu=1 --owner-selector app=x", "no node has any nvidia.com/gpu"),
    ("reserve create --name a --cpu 1 --owner-selector app=x --count 1001", "1<=x<=1000"),
    ("reserve create --name a --cpu 1 --owner-selector app=x --timeout -1m", "--timeout: '-1m' is negative"),
    ("reserve create --name a --cpu 1 --owner-selector app=x --expires 2030-01-01", "not an RFC 3339 time"),
    ("reserve create --name a --cpu 1 --owner-selector app=x -n Shop", "'Shop' is no namespace"),
    ("reserve create statefulset/ --count 1", "write deployment/NAME or statefulset/NAME"),
    ("reserve list --phase available --phase x", "'x' is not one of"),
    ("reserve watch --until never", "'never' is not one of"),
    ("reserve release a -l app=x", "name Reservations, or give a label query"),
    ("reserve window create w --cron @daily --duration 1h --pods 1 --cpu 1 --owner-selector a=b", "five fields"),
    ("reserve window create w --cron 0_3_*_*_* --pods 1 --cpu 1 --owner-selector a=b", "must be a range"),
    ("reserve window create w --cron 0_3_*_*_* --end 25:00 --pods 1 --cpu 1 --owner-selector a=b", "time of day"),
    (
        "reserve window create w --cron 0_3_*_*_* --duration 1h --time-zone Europe/Berln --pods 1 --cpu 1 --owner-selector a=b",
        "did you mean Europe/Berlin?",
    ),
    ("reserve window create w --cron 0_3_31_2_* --duration 1h --pods 1 --cpu 1 --owner-selector a=b", "day-of-month"),
    (
        "reserve window create w --cron 0_3_*_*_* --duration 1h --ago -5m --pods 1 --cpu 1 --owner-selector a=b",
        "--ago: '-5m' is negative",
    ),
    ("reserve window create w --cron 0_3_*_*_* --duration 1h --pods 1 --owner-selector a=b", "nothing to hold"),
    ("move pod/p -n shop/p", "'shop/p' is no namespace"),
    ("move pod/p -n shop -A", "-n and -A exclude each other"),
    ("move pod/p --timeout 0.5ns", "more than 0s"),
    ("drain N1", "there is no node/N1"),
    ("drain n1 node/n99", "there is no node/n99"),
    ("drain n1 --timeout 1e9s", "duration '1e9s' is not of the form 90s"),
    ("consolidate --until 50.5%", "'50.5%' is not a percentage"),
    ("consolidate --pool a=b,c --plan", "'c' is not KEY=VALUE"),
    ("uncordon n1 -l a=b", "not both"),
    ("uncordon n1/n2", "there is no node/n1/n2"),
    ("scale deployment/web --replicas 1.5", "not a whole number"),
    ("scale deployment/web --replicas 2 -n SHOP", "'SHOP' is no namespace"),
    ("explain node pod/p", "'pod/p': write NAME or node/NAME"),
    ("explain node n1/n2", "'n1/n2': write NAME or node/NAME"),
    ("explain reservation pod/p", "'pod/p': write NAME or reservation/NAME"),
    ("plan -n shop,web", "'shop,web' is no namespace"),
    ("budgets -n shop -A", "-n and -A exclude each other"),
    ("budgets -l a=(", "is no label query"),
    ("budgets --max-unavailable 101%", "'101%' is neither"),
    ("history -n shop -A", "-n and -A exclude each other"),
    ("explain pod p -n Shop", "'Shop' is no namespace"),
    ("explain pod --all-pending --now noon", "'noon' is not an RFC 3339 time"),
    ("release-gates --controller-namespace _", "'_' is no namespace"),
    ("history -n Shop", "'Shop' is no namespace"),
    ("history --since -2h", "is negative"),
    ("status --controller-namespace Nope!", "'Nope!' is no namespace"),
    ("check -o name", "'name' is not one of"),
    ("uninstall --namespace a.b --dry-run", "'a.b' is no namespace"),
    ("run --config-map a/b/c", "is not NAMESPACE/NAME"),
    ("run --config /no/such --config-map a/b", "--config and --config-map exclude each other"),
    ("reserve window create w --cron 0_3_*_*_* --duration 25h --pods 1 --cpu 1 --owner-selector a=b", "the next one has begun, 24h0m0s later"),
    ("reserve window create w --cron 0_3_*_*_1-2 --duration 25h --pods 1 --cpu 1 --owner-selector a=b", "the next one has begun"),
    ("reserve window create w --cron */5_*_*_*_* --duration 10m --pods 1 --cpu 1 --owner-selector a=b", "10m0s lasts until after the next one has begun, 5m0s"),
    ("reserve window create w --cron 0_*_*_*_* --end 12:00 --pods 1 --cpu 1 --owner-selector a=b", "the next one has begun"),
    ("reserve window create w --cron 0_3_*_*_* --duration 1h --ago 25h --pods 1 --cpu 1 --owner-selector a=b", "--ago 25h0m0s: at most 24h0m0s"),
    ("reserve window create w --cron 0_3_1_*_* --duration 1h --ago 169h --pods 1 --cpu 1 --owner-selector a=b", "at most 168h0m0s"),
    ("move pod/p --timeout 169h", "at most 168h"),
    ("drain n1 --grace-period 999999999999", "is not in the range"),
    ("drain n1 --grace-period -2", "is not in the range"),
    ("scale deployment/web --replicas 2 --timeout 0s", "--timeout 0s: more than 0s"),
    ("scale deployment/web --replicas 99999999999", "is not in the range"),
    ("reserve create deployment/web --replicas 2147483648", "is not in the range"),
    ("reserve create --name a --cpu 1 --owner-selector app=x --timeout 0s", "--timeout 0s: more than 0s"),
    ("reserve create --name a --cpu 1 --owner-selector app=x --timeout 999999h", "at most 168h"),
    ("reserve create --name a --cpu 1 --owner-selector app=x --expires 2999-12-31T00:00:00Z", "at most 8760h from now"),
    ("reserve create --name a --request nvidia.com/gpu=1.5 --owner-selector app=x", "only a whole number can be held"),
    ("history --since 0s", "--since 0s: more than 0s"),
    ("uninstall --dry-run --wait nan", "'nan' is not a number"),
    ("uninstall --dry-run --wait inf", "is not in the range"),
    ("status --every nan", "'nan' is not a number"),
    ("status --watch --every 1e30", "is not in the range"),
    ("ui --every inf", "is not in the range"),
    ("plan --prove-seconds nan", "'nan' is not a number"),
    ("plan --prove-seconds 1e12", "is not in the range"),
    ("plan --max-moves 99999999999999999999999", "neither a number up to 1000000 nor 'all'"),
    ("plan --now 0001-01-01T00:00:00Z", "is not between the years 1970 and 3000"),
    ("explain node n1 --now 9999-12-31T23:59:59Z", "is not between the years 1970 and 3000"),
    ("budgets --min-replicas 99999999999", "is not in the range"),
]  # fmt: skip
FILES = {
    "reserve create -f": MANIFESTS,
    "validate": CONFIGURATIONS,
    "convert": CONVERTED,
    "plan --from DUMP --scheduler-config": SCHEDULERS,
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


def test_there_are_more_than_a_hundred():
    assert len(WRONG) + len(FLAGS) >= 120


@pytest.mark.parametrize(("line", "name"), WRONG, ids=[f"{line}: {name}" for line, name in WRONG])
def test_a_wrong_file_is_refused_with_where_it_is_wrong(command, cluster, tmp_path, dump, line, name):  # noqa: PLR0917
    api, live = cluster
    text, named = FILES[line][name]
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    good = dump([node("n1").manifest(), pod("p", "shop").on("n1").manifest()])
    words = [*(str(good) if word == "DUMP" else word for word in line.split()), str(path)]
    done = command(*words, *(["--kubeconfig", live, "--no-wait"] if line.startswith("reserve") else []))
    assert done.exit_code == (1 if name in BY_SERVER else 2), done.output
    assert done.stdout == ""
    assert named.replace("FILE", str(path)) in done.stderr
    assert str(path) in done.stderr or name in (*BY_SERVER, "no such plugin")
    assert "Traceback" not in done.output
    assert api.get("/apis/rescheduler.dev/v1alpha1/reservations").items == []


@pytest.mark.parametrize(("line", "named"), FLAGS, ids=[line for line, _ in FLAGS])
def test_a_wrong_flag_is_refused_and_nothing_is_stored(command, cluster, line, named):
    api, live = cluster
    words = [word.replace("_", " ") if word.count("_") == 4 else word for word in line.split()]
    done = command(*words, "--kubeconfig", live)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert named in done.stderr
    for kind in ("reservations", "reservationwindows"):
        assert api.get(f"/apis/rescheduler.dev/v1alpha1/{kind}").items == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("sandbox --nodes 0", "is not in the range"),
        ("sandbox --nodes 1001", "is not in the range"),
        ("sandbox --usage nan", "'nan' is not a number"),
        ("sandbox --usage -1", "is not in the range"),
        ("sandbox --cpu 1n", "--cpu: 1n is not from 100m to 10k"),
        ("sandbox --cpu 1e30", "--cpu: 1e30 is not from 100m to 10k"),
        ("sandbox --memory 1m", "--memory: 1m is not from 64Mi to 1Pi"),
        ("demo --time-limit nan", "'nan' is not a number"),
        ("demo --time-limit inf", "is not in the range"),
    ],
)
def test_a_sandbox_of_nonsense_is_not_started(command, line, named):
    done = command(*line.split())
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert named in done.stderr


def test_a_good_file_is_taken(command, cluster, tmp_path):
    api, live = cluster
    path = tmp_path / "good.yaml"
    path.write_text(f"{ROOM}spec: {{template: {POD}, {FOR}}}\n")
    done = command("reserve", "create", "-f", path, "--no-wait", "--kubeconfig", live, "-o", "json")
    assert done.exit_code == 0, done.output
    assert [one["metadata"]["name"] for one in json.loads(done.stdout)["items"]] == ["r"]
    api.delete("/apis/rescheduler.dev/v1alpha1/reservations/r").expect()
