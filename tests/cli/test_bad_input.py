"""Bad input: the right answer or one clear message that names what is wrong and where, and never a traceback."""

import gzip
import json
import re

import pytest

from harness.builders import deployment, node, pod

ITEM = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
DEEP = "[" * 100_000
CORPUS = {
    "nothing": b"",
    "blanks": b" \n\n ",
    "words": b"hello world",
    "null": b"null",
    "text": b'"x"',
    "number": b"12",
    "cut": b'{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod"',
    "cut-early": b'{"a":',
    "array-of-numbers": b"[1, 2]",
    "items-object": b'{"kind":"List","apiVersion":"v1","items":{"a":1}}',
    "items-null": b'{"kind":"List","apiVersion":"v1","items":null}',
    "items-missing": b'{"kind":"List","apiVersion":"v1"}',
    "items-scalars": b'{"kind":"List","apiVersion":"v1","items":[1,"x",null,[]]}',
    "deep": DEEP.encode(),
    "deep-object": b'{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}]}",
    "binary": bytes(range(256)),
    "latin": "kind: Pod\nname: \xe9".encode("latin-1"),
    "utf16": '{"kind":"List","items":[]}'.encode("utf-16"),
    "nul": b'{"kind":"Pod\x00"}',
    "surrogate": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\\ud800","namespace":"d"}}',
    "control": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\\u001b[31m","namespace":"d"}}',
    "huge-number": b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","generation":1e999}}',
    "duplicate-keys": b'{"kind":"Pod","kind":"Node","apiVersion":"v1","metadata":{"name":"a","name":"b"}}',
    "duplicate-yaml": b"kind: Pod\nkind: Node\n",
    "tab-yaml": b"kind:\n\t- a",
    "alias-yaml": b"a: &a [*a]",
    "tag-yaml": b"!!python/object:os.system {}",
    "bomb-yaml": b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n",
    "gzip": b"\x1f\x8bnot really",
    "cut-gzip": gzip.compress(json.dumps({"kind": "List", "items": [ITEM] * 500}).encode())[:60],
    "zstd": b"\x28\xb5\x2f\xfdnot really",
    "error-status": b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}',
    "html": b"<html><body>502 Bad Gateway</body></html>",
}  # fmt: skip
USES = {
    "plan": ("plan", "--from", "{}"),
    "plan -o json": ("plan", "-o", "json", "--from", "{}"),
    "plan -o html": ("plan", "-o", "html", "--from", "{}"),
    "plan --config": ("plan", "--from", "{dump}", "--config", "{}"),
    "plan --kubeconfig": ("plan", "--kubeconfig", "{}"),
    "explain": ("explain", "pod", "--all-pending", "--from", "{}"),
    "validate": ("validate", "{}"),
    "run --config": ("run", "--once", "--dry-run", "--kubeconfig", "{kubeconfig}", "--config", "{}"),
    "run --kubeconfig": ("run", "--once", "--kubeconfig", "{}"),
    "status --kubeconfig": ("status", "--kubeconfig", "{}"),
    "drain --kubeconfig": ("drain", "n1", "--plan", "--kubeconfig", "{}"),
    "uncordon --kubeconfig": ("uncordon", "n1", "--kubeconfig", "{}"),
    "convert": ("convert", "{}"),
}


@pytest.mark.parametrize("use", USES)
def test_a_damaged_file_never_ends_in_a_traceback(command, tmp_path, dump, kubeconfig_of, use):
    good = dump([node("n1").manifest()], "good.json")
    for name, content in CORPUS.items():
        bad = tmp_path / f"{name}.txt"
        bad.write_bytes(content)
        words = [w.format(bad, dump=good, kubeconfig=kubeconfig_of()) for w in USES[use]]
        result = command(*words)
        assert result.exit_code in (0, 1, 2), f"{name}: {result.output}"
        assert "Traceback" not in result.output, name
        if result.exit_code == 0:
            continue
        assert result.stdout == "", name
        assert result.stderr.strip(), name


ODD_PODS = {
    "without containers": {"spec": {"nodeName": "n1"}},
    "containers null": {"spec": {"containers": None, "nodeName": "n1"}},
    "negative request": {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}], "nodeName": "n1"}
    },
    "odd quantity": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1 apple"}}}]}},
    "wrong types": {"spec": {"containers": "many", "nodeName": 7}},
    "labels list": {"metadata": {"name": "p", "namespace": "d", "labels": ["a"]}},
    "no metadata": {"metadata": None},
    "clock": {"metadata": {"name": "p", "namespace": "d", "creationTimestamp": "tomorrow"}},
}


@pytest.mark.parametrize("name", ODD_PODS)
def test_an_odd_pod_costs_nothing_but_itself(command, dump, name):
    odd = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}} | ODD_PODS[name]
    good = pod("good", "shop").on("n1").cpu("500m").manifest()
    path = dump([node("n1").manifest(), odd, good])
    result = command("plan", "-o", "json", "--from", path)
    assert result.exit_code == 0
    plan = json.loads(result.stdout)
    assert plan["before"]["nodes"][0]["cpuRequestedMilli"] == 500
    if plan["before"]["pods"] == 1:
        assert f"{path}:1" in result.stderr


def test_one_node_is_a_cluster_with_nowhere_to_go(command, dump):
    items = [node("only").taint("x").manifest(), deployment("web", "shop").pod("p").on("only").manifest()]
    plan = json.loads(command("plan", "-o", "json", "--from", dump(items)).stdout)
    assert plan["moves"] == []
    assert [s["pod"]["name"] for s in plan["skipped"]] == ["p"]


def timeless(value):
    """The same without anything that is a time."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if not is_time(each)}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def is_time(value):
    return isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\S+Z", value) is not None


def test_a_dump_without_times_is_planned_as_one_of_old_pods(command, dump, untidy, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\nprotections: {minAge: 24h}\n"
    )
    line = ("plan", "-o", "json", "--config", config, "--from", dump([timeless(each) for each in untidy]))
    undated, dated = command(*line), command(*line, "--now", "2026-11-21T10:00:00Z")
    assert "everything counts as old" in undated.stderr
    assert "everything counts as old" not in dated.stderr
    found, expected = json.loads(undated.stdout), json.loads(dated.stdout)
    assert found["moves"]
    for part in ("moves", "skipped", "before", "after"):
        assert found[part] == expected[part]
    assert found["metadata"]["generatedAt"] == "2001-09-09T01:46:40Z"
