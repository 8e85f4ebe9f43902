"""Reading dumps: every form that people have, and a clear word about what cannot be used."""

import dataclasses
import gzip
import io
import itertools
import json
import sys
from types import SimpleNamespace

import msgspec
import pytest
import yaml
import zstandard

from harness.builders import deployment, node, pdb, pod, snapshot
from rescheduler.cli.dump_reader import InputError, read_sources
from rescheduler.cli.snapshot_input import newest_time_s
from rescheduler.model.decode import Decoder
from rescheduler.model.decode.dump import PIECE_BYTES
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey

WEB = deployment("web", "shop").cpu("500m").replicas(2)
OBJECTS = [
    node("n1").zone("a"), node("n2"), WEB, WEB.pod("web-1").on("n1"), WEB.pod("web-2").on("n2"),
    pdb("web", "shop").allows(1),
]  # fmt: skip
BUILT = snapshot(OBJECTS, now_s=0.0)
OF_NO_VERSION = {key: msgspec.structs.replace(pod, resource_version="") for key, pod in BUILT.pods.items()}
EXPECTED = dataclasses.replace(BUILT, pods=OF_NO_VERSION)
EXPECTED_DEPLOYMENTS = snapshot([WEB], now_s=0.0).workloads


def as_list(objects=OBJECTS):
    items = [item if isinstance(item, dict) else item.manifest() for item in objects]
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def read(*paths):
    state, warnings = read_sources([str(path) for path in paths], Decoder(), lambda *_: None)
    return state.snapshot(0.0), [str(warning) for warning in warnings]


def file(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


FORMS = {
    "list.json": lambda: json.dumps(as_list()),
    "indented.json": lambda: json.dumps(as_list(), indent=4),
    "array.json": lambda: json.dumps([item.manifest() for item in OBJECTS]),
    "lines.jsonl": lambda: "\n".join(json.dumps(item.manifest()) for item in OBJECTS),
    "lists.json": lambda: json.dumps(as_list([as_list(OBJECTS[:3]), as_list(OBJECTS[3:])])),
    "list.yaml": lambda: yaml.safe_dump(as_list()),
    "documents.yaml": lambda: yaml.safe_dump_all([item.manifest() for item in OBJECTS]),
    "lists.yml": lambda: yaml.safe_dump_all(
        [as_list(OBJECTS[:3]), as_list(OBJECTS[3:])], explicit_start=True
    ),
    "list.json.gz": lambda: gzip.compress(json.dumps(as_list()).encode()),
    "list.json.zst": lambda: zstandard.compress(json.dumps(as_list()).encode()),
    "list.yaml.gz": lambda: gzip.compress(yaml.safe_dump(as_list()).encode()),
    "mark.json": lambda: b"\xef\xbb\xbf" + json.dumps(as_list()).encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_snapshot(tmp_path, name):
    found, warnings = read(file(tmp_path, name, FORMS[name]()))
    assert found == EXPECTED
    assert warnings == []


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(as_list()).encode())))
    assert read("-") == (EXPECTED, [])


def test_a_list_as_the_api_writes_it(tmp_path):
    items = [item.manifest() for item in OBJECTS if item.kind is Kind.POD]
    for item in items:
        del item["kind"], item["apiVersion"]
    text = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items}
    found, warnings = read(file(tmp_path, "pods.json", text))
    assert found.pods == EXPECTED.pods
    assert warnings == []


@pytest.mark.crossed
@pytest.mark.parametrize("order", list(itertools.permutations(["apiVersion", "items", "kind", "metadata"])))
@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_large_list_is_read_wherever_its_kind_stands(tmp_path, order, typed, form):
    """jq -S and the Python client sort keys, so that the kind of a list stands behind its items."""
    items = [item.manifest() for item in OBJECTS if item.kind is Kind.DEPLOYMENT]
    items[0]["metadata"]["annotations"] = {"padding": "x" * (PIECE_BYTES + 1)}
    if not typed:
        for item in items:
            del item["kind"], item["apiVersion"]
    kind, version = ("List", "v1") if typed else ("DeploymentList", "apps/v1")
    document = {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}
    ordered = {key: document[key] for key in order}
    text = json.dumps(ordered) if form == "json" else yaml.safe_dump(ordered, sort_keys=False)
    found, warnings = read(file(tmp_path, f"dump.{form}", text))
    assert found.workloads == EXPECTED_DEPLOYMENTS
    assert warnings == []


def test_a_folder_is_read_recursively_and_other_files_are_left_alone(tmp_path):
    file(tmp_path, "a/nodes.json", as_list(OBJECTS[:2]))
    file(tmp_path, "b/rest.yaml", yaml.safe_dump(as_list(OBJECTS[2:])))
    file(tmp_path, "notes.txt", "not a dump")
    file(tmp_path, ".hidden.json", "not a dump either")
    assert read(tmp_path) == (EXPECTED, [])


def test_progress_ends_at_the_size_of_all_files(tmp_path):
    paths = [file(tmp_path, "a.json", as_list()), file(tmp_path, "b.json.gz", gzip.compress(b"[]"))]
    seen = []
    read_sources([str(path) for path in paths], Decoder(), lambda *step: seen.append(step))
    total = sum(path.stat().st_size for path in paths)
    assert seen[-1] == (total, total, str(paths[1]))
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)


@pytest.mark.parametrize("text", [
    '{"apiVersion":"v1","kind":"List","items":[]}',
    "[]",
    "kind: List\napiVersion: v1\nitems: []\n",
    '{"kind":"List","items":null}',
])  # fmt: skip
def test_an_empty_cluster_is_a_cluster(tmp_path, text):
    found, warnings = read(file(tmp_path, "empty.json", text))
    assert not found.nodes
    assert not found.pods
    assert warnings == []


DAMAGED = {
    "no containers": ("spec.containers", [], "spec.containers is empty"),
    "null containers": ("spec.containers", None, "spec.containers is empty"),
    "wrong type": ("spec.containers", "many", "spec.containers"),
    "no quantity": ("spec.containers", [{"name": "c", "resources": {"requests": {"cpu": "1 core"}}}], "cpu: quantity '1 core'"),
    "negative": ("spec.containers", [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}], "is negative"),
    "no time": ("metadata.creationTimestamp", "yesterday", "creationTimestamp"),
    "labels": ("metadata.labels", {"a": ["5"]}, "Expected `str | null`"),
    "labels of a wrong shape": ("metadata.labels", "none", "Expected `object`"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_one_damaged_object_is_set_aside_with_file_and_name(tmp_path, case, form):
    path, value, says = DAMAGED[case]
    text = as_list([*OBJECTS, pod("bad", "shop").set(path, value)])
    content = json.dumps(text) if form == "json" else yaml.safe_dump(text)
    found, warnings = read(file(tmp_path, f"dump.{form}", content))
    assert found == EXPECTED
    (warning,) = warnings
    assert f"dump.{form}" in warning
    assert "Pod shop/bad" in warning
    assert says in warning


def test_broken_yaml_of_one_object_costs_only_that_object(tmp_path):
    good, rest = yaml.safe_dump(as_list()).split("kind: List")
    broken = "- apiVersion: v1\n  kind: Pod\n  kind: Pod\n"
    found, warnings = read(file(tmp_path, "dump.yaml", f"{good}{broken}kind: List{rest}"))
    assert found == EXPECTED
    (warning,) = warnings
    assert "duplicate key 'kind'" in warning
    assert f"dump.yaml:{good.count(chr(10)) + 3}" in warning


def test_many_damaged_objects_are_counted_not_all_listed(tmp_path):
    bad = [pod(f"bad-{n}").set("spec.containers", []) for n in range(70)]
    _, warnings = read(file(tmp_path, "dump.json", as_list([*OBJECTS, *bad])))
    assert len(warnings) == 51
    assert "20 more objects are skipped" in warnings[-1]


def test_unknown_kinds_are_said_once_with_their_number(tmp_path):
    others = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s{n}"}} for n in range(3)]
    others.append({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "x"}})
    found, warnings = read(file(tmp_path, "dump.json", as_list([*OBJECTS, *others])))
    assert found == EXPECTED
    assert [w.partition(": ")[2] for w in warnings] == [
        "3 objects of kind Secret (v1) are not used",
        "1 object of kind Service (serving.knative.dev/v1) is not used",
    ]


def test_of_repeated_objects_the_newest_counts_and_it_is_said(tmp_path):
    older, newer = pod("a").version("5").on("n1"), pod("a").version("12").on("n2")
    for order in ([older, newer], [newer, older], [newer, newer, older]):
        found, warnings = read(file(tmp_path, "dump.json", as_list(order)))
        assert found.pods[ObjectKey("default", "a")].node == "n2"
        (warning,) = warnings
        assert "default/a" in warning
        assert "repeated" in warning


BROKEN = {
    "text": ("hello world\n", 1, "neither a Kubernetes object nor a list"),
    "html": ("<html>\n<body>503</body>", 1, ""),
    "cut off": ('{"apiVersion":"v1",\n"items":[{"kind":"Pod"', 2, "truncated"),
    "cut off yaml": (
        "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a}\n",
        3,
        "truncated",
    ),
    "not json": ('{"items": [\n{"kind": Pod}]}', 2, "not JSON"),
    "yaml": ("kind: Pod\nmetadata: {name: a\nspec: 5\n", 3, "not YAML"),
    "nested": ("[" * 100_000, 1, "nested too deeply"),
    "number": ("[5]", 1, "items[0] is a number, not an object"),
    "empty": ("", 0, "empty"),
    "blank": ("\n \n", 0, "empty"),
    "gzip": (gzip.compress(b"[1,2,3]" * 99)[:-30], 0, "gzip"),
    "zstd": (b"\x28\xb5\x2f\xfdoops-not-a-frame", 0, "zstd"),
    "utf-16": ("[]".encode("utf-16"), 1, "UTF-8"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_dump_is_refused_with_place_and_remedy(tmp_path, case):
    content, line, says = BROKEN[case]
    path = file(tmp_path, "dump", content)
    with pytest.raises(InputError) as error:
        read(path)
    assert error.value.line == line
    assert says in str(error.value)
    assert str(error.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert error.value.remedy


def test_a_missing_path_and_a_folder_without_dumps(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match=r"no \.json or \.yaml"):
        read(tmp_path)


def test_numbers_and_words_in_yaml_mean_what_they_mean_to_kubectl(tmp_path):
    text = """
apiVersion: v1
kind: Pod
metadata:
  name: a
  creationTimestamp: 2026-11-20T01:02:03Z
spec:
  hostNetwork: on
  priority: 0x1F
  terminationGracePeriodSeconds: 1_000
  containers:
  - name: c
    ports: [{containerPort: 012, hostPort: 1e3}]
    resources: {requests: {cpu: 0.5, memory: 1e3, "example.com/x": 2}}
"""
    found, warnings = read(file(tmp_path, "pod.yaml", text))
    assert warnings == []
    record = found.pods[ObjectKey("default", "a")]
    assert record.spec.host_network
    assert record.spec.priority == 31
    assert record.spec.termination_grace_s == 1000
    assert [port.port for port in record.spec.host_ports] == [1000]
    assert record.spec.requests.cpu_milli == 500
    assert record.spec.requests.memory_bytes == 1000
    assert record.spec.requests.scalar("example.com/x") == 2
    assert record.created_at_s == 1795136523.0


ODD_WORDS = [
    "2e832088", "2e83", "1234567", "0x1F", "012", "08", "1_000", "yes", "off", "y", "True", "1.10", "12:30",
]  # fmt: skip
ODD_WORDS += [
    ".inf",
    "-.Inf",
    ".nan",
    "NaN",
    "2026-11-22",
    "2026-11-22T00:00:00Z",
    "9" * 30,
    "9" * 5000,
    "=",
    "<<",
]


@pytest.mark.parametrize("word", ODD_WORDS)
def test_where_a_text_is_demanded_an_unquoted_word_is_that_text(tmp_path, word):
    text = f"""
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {{name: {word}, uid: {word}, labels: {{commit: {word}}}, annotations: {{cause: {word}}}}}
  spec:
    containers: [{{name: c}}]
    nodeSelector: {{commit: {word}}}
    tolerations: [{{key: {word}, value: {word}, operator: Equal}}]
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, operator: In, values: [{word}]}}]}}]
- apiVersion: v1
  kind: Service
  metadata: {{name: s, namespace: default}}
  spec: {{selector: {{commit: {word}}}}}
- apiVersion: scheduling.k8s.io/v1
  kind: PriorityClass
  metadata: {{name: p}}
  value: 1_000
"""
    found, warnings = read(file(tmp_path, "dump.yaml", text))
    assert warnings == []
    record = found.pods[ObjectKey("default", word)]
    assert (record.uid, dict(record.labels)) == (word, {"commit": word})
    assert record.spec.node_selector == (("commit", word),)
    assert [(one.key, one.value) for one in record.spec.tolerations] == [(word, word)]
    assert record.spec.node_affinity.terms[0].fields[0].values == (word,)
    assert found.services[ObjectKey("default", "s")].selector == (("commit", word),)
    assert found.priority_classes["p"].value == 1000


def test_labels_that_differ_do_not_become_equal(tmp_path):
    pods = [
        pod(f"p{n}").set("metadata.labels", {"commit": commit})
        for n, commit in enumerate(("2e832088", "2e999999"))
    ]
    text = yaml.safe_dump(as_list(pods))
    assert "commit: 2e832088\n" in text, "PyYAML and kubectl leave it unquoted"
    found, _ = read(file(tmp_path, "dump.yaml", text))
    assert [one.labels["commit"] for one in found.pods.values()] == ["2e832088", "2e999999"]


@pytest.mark.parametrize("word", ["~", "null", ""])
def test_a_label_without_a_value_is_an_empty_one(tmp_path, word):
    text = f"apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels:\n    a: {word}\n"
    found, warnings = read(file(tmp_path, "dump.yaml", text))
    assert (dict(found.nodes["n"].labels), warnings) == ({"a": ""}, [])


@pytest.mark.parametrize("word", [".inf", "2e832088", "many"])
def test_a_word_that_is_no_number_where_one_is_demanded_is_said(tmp_path, word):
    content = yaml.safe_dump(as_list([*OBJECTS, pod("bad", "shop").set("spec.priority", 5)]))
    found, warnings = read(file(tmp_path, "dump.yaml", content.replace("priority: 5", f"priority: {word}")))
    assert found == EXPECTED
    (warning,) = warnings
    assert "Pod shop/bad" in warning
    assert "Expected `int | null`, got `str`" in warning


def test_a_cluster_of_one_node_without_allocatable(tmp_path):
    text = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    found, warnings = read(file(tmp_path, "node.json", text))
    assert found.nodes["n1"].allocatable.cpu_milli == 0
    assert found.nodes["n1"].allocatable.pods == 0
    assert warnings == []


def node_metrics(name, cpu, timestamp, **fields):
    item = {
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": name},
        "timestamp": timestamp, "window": "15s", "usage": {"cpu": cpu, "memory": "1Gi"},
    }  # fmt: skip
    return item | fields


def test_the_newest_measurement_of_each_node_counts(tmp_path):
    early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
    samples = [
        node_metrics("n1", "1", late),
        node_metrics("n1", "3", early),
        node_metrics("n2", "250m", early),
    ]
    found, warnings = read(file(tmp_path, "a.json", as_list([*OBJECTS, *samples])))
    assert {name: used.cpu_milli for name, used in found.usage.items()} == {"n1": 1000, "n2": 250}
    assert found.usage["n1"].memory_bytes == 1 << 30
    assert not any("NodeMetrics" in warning for warning in warnings)


def test_measurements_in_a_file_of_their_own_as_the_api_answers(tmp_path):
    bare = {
        "metadata": {"name": "n1"},
        "timestamp": "2026-01-01T00:00:00Z",
        "usage": {"cpu": "1", "memory": "1"},
    }
    answer = {
        "kind": "NodeMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [bare],
    }
    found, _ = read(file(tmp_path, "a.json", as_list()), file(tmp_path, "b.json", answer))
    assert found.nodes == EXPECTED.nodes
    assert found.usage["n1"].cpu_milli == 1000


def test_a_damaged_measurement_is_unknown_and_said(tmp_path):
    bad = [
        node_metrics("n1", "much", "2026-01-01T00:00:00Z"),
        node_metrics("n2", "1", "yesterday"),
        node_metrics("n3", "1", "2026-01-01T00:00:00Z", usage=None),
    ]
    found, warnings = read(file(tmp_path, "a.json", as_list([*OBJECTS, *bad])))
    assert not found.usage
    assert sum("NodeMetrics" in warning for warning in warnings) == len(bad)


def pod_metrics(name, *cpus, timestamp="2026-01-01T00:00:00Z"):
    return {
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": "shop"}, "timestamp": timestamp,
        "containers": [{"name": f"c{i}", "usage": {"cpu": cpu, "memory": "2Mi"}} for i, cpu in enumerate(cpus)],
    }  # fmt: skip


def test_usage_of_pods_is_the_sum_of_their_containers_and_damaged_ones_are_unknown(tmp_path):
    late = "2026-01-01T00:05:00Z"
    samples = [
        pod_metrics("a", "1500000000n", "250m"),
        pod_metrics("b", "1"),
        pod_metrics("b", "3", timestamp=late),
        pod_metrics("c", "much"),
        pod_metrics("d", "1", timestamp=""),
    ]
    found, warnings = read(file(tmp_path, "a.json", as_list([*OBJECTS, *samples])))
    assert [found.pod_usage.of(ObjectKey("shop", name), "cpu") for name in "abcd"] == [
        1750.0, 3000.0, None, None,
    ]  # fmt: skip
    assert found.pod_usage.of(ObjectKey("shop", "a"), "memory") == 4 << 20
    assert sum("PodMetrics" in warning for warning in warnings) == 2


def test_a_dump_is_as_late_as_its_measurements(tmp_path):
    measured = file(tmp_path, "a.json", as_list([*OBJECTS, node_metrics("n1", "1", "2027-01-01T00:00:00Z")]))
    state, _ = read_sources([str(measured)], Decoder(), lambda *_: None)
    assert newest_time_s(state) == state.snapshot(0.0).usage["n1"].measured_at_s
