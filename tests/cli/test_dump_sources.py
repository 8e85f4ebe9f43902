"""Reading dumps: every form that people have, and a clear word about what cannot be used."""

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest
import yaml
import zstandard

from rescheduler.cli.sources import InputError, read_sources
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.testing.builders import deployment, node, pdb, pod, snapshot

WEB = deployment("web", "shop").cpu("500m").replicas(2)
OBJECTS = [
    node("n1").zone("a"),
    node("n2"),
    WEB,
    WEB.pod("web-1").on("n1"),
    WEB.pod("web-2").on("n2"),
    pdb("web", "shop").allows(1),
]
EXPECTED = snapshot(OBJECTS, now_s=0.0)


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


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion":"v1","kind":"List","items":[]}',
        "[]",
        "kind: List\napiVersion: v1\nitems: []\n",
        '{"kind":"List","items":null}',
    ],
)
def test_an_empty_cluster_is_a_cluster(tmp_path, text):
    found, warnings = read(file(tmp_path, "empty.json", text))
    assert not found.nodes
    assert not found.pods
    assert warnings == []


DAMAGED = {
    "no containers": ("spec.containers", [], "spec.containers is empty"),
    "null containers": ("spec.containers", None, "spec.containers is empty"),
    "wrong type": ("spec.containers", "many", "spec.containers"),
    "no quantity": (
        "spec.containers",
        [{"name": "c", "resources": {"requests": {"cpu": "1 core"}}}],
        "cpu: quantity '1 core'",
    ),
    "negative": ("spec.containers", [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}], "is negative"),
    "no time": ("metadata.creationTimestamp", "yesterday", "creationTimestamp"),
    "labels": ("metadata.labels", {"a": 5}, "Expected `str | null`"),
    "labels of a wrong shape": ("metadata.labels", "none", "Expected `object`"),
}


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
    assert "20 more objects are left out" in warnings[-1]


def test_unknown_kinds_are_said_once_with_their_number(tmp_path):
    others = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s{n}"}} for n in range(3)]
    others.append({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "x"}})
    found, warnings = read(file(tmp_path, "dump.json", as_list([*OBJECTS, *others])))
    assert found == EXPECTED
    assert [w.partition(": ")[2] for w in warnings] == [
        "3 objects of kind Secret (v1) are not used",
        "1 objects of kind Service (serving.knative.dev/v1) are not used",
    ]


def test_of_repeated_objects_the_newest_counts_and_it_is_said(tmp_path):
    older, newer = pod("a").version("5").on("n1"), pod("a").version("12").on("n2")
    for order in ([older, newer], [newer, older], [newer, newer, older]):
        found, warnings = read(file(tmp_path, "dump.json", as_list(order)))
        assert found.pods[ObjectKey("default", "a")].node == "n2"
        (warning,) = warnings
        assert "default/a" in warning
        assert "more than once" in warning


BROKEN = {
    "text": ("hello world\n", 1, "neither a Kubernetes object nor a list"),
    "html": ("<html>\n<body>503</body>", 1, ""),
    "cut off": ('{"apiVersion":"v1",\n"items":[{"kind":"Pod"', 2, "cut off"),
    "not json": ('{"items": [\n{"kind": Pod}]}', 2, "not JSON"),
    "yaml": ("kind: Pod\nmetadata: {name: a\nspec: 5\n", 3, "not YAML"),
    "nested": ("[" * 100_000, 1, "nested too deeply"),
    "number": ("[5]", 1, "not an object"),
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


def test_numbers_and_words_in_yaml_mean_what_yaml_1_2_says(tmp_path):
    text = """
apiVersion: v1
kind: Pod
metadata:
  name: a
  creationTimestamp: 2026-11-20T01:02:03Z
  labels: {on: "yes", time: '22:30', answer: no}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: 0.5, memory: 1e3, "example.com/x": 2}}
"""
    found, warnings = read(file(tmp_path, "pod.yaml", text))
    assert warnings == []
    record = found.pods[ObjectKey("default", "a")]
    assert dict(record.labels) == {"on": "yes", "time": "22:30", "answer": "no"}
    assert record.spec.requests.cpu_milli == 500
    assert record.spec.requests.memory_bytes == 1000
    assert record.spec.requests.scalar("example.com/x") == 2
    assert record.created_at_s == 1795136523.0


def test_a_cluster_of_one_node_without_allocatable(tmp_path):
    text = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    found, warnings = read(file(tmp_path, "node.json", text))
    assert found.nodes["n1"].allocatable.cpu_milli == 0
    assert found.nodes["n1"].allocatable.pods == 0
    assert warnings == []
