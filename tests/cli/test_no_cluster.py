"""A dump in which there is no cluster, and what of a dump is left out: both are told, with the remedy."""

import json

import pytest

from harness.builders import node, pod

STATUS = {
    "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "Unauthorized",
    "reason": "Unauthorized", "code": 401,
}  # fmt: skip
NONE = {
    "an error of the API server": (STATUS, "401 Unauthorized: Unauthorized; write it again with credentials"),
    "null": (None, "the dump has no nodes, and nothing else; write it with: kubectl get nodes,pods"),
    "an empty list": ({"apiVersion": "v1", "kind": "List", "items": []}, "the dump has no nodes"),
    "a list of null": ({"apiVersion": "v1", "kind": "List", "items": [None]}, "items[0] is null, not an object"),
    "pods alone": ({"apiVersion": "v1", "kind": "List", "items": [pod("p", "d").on("n").manifest()]}, "the dump has no nodes, but 1 pod"),
    "a damaged node alone": ({"apiVersion": "v1", "kind": "List", "items": [node("n").cpu("4x").manifest()]}, "Node n: skipped: cpu: quantity '4x'"),
}  # fmt: skip


@pytest.mark.crossed
@pytest.mark.parametrize("words", [("plan",), ("explain", "pod", "--all-pending")])
@pytest.mark.parametrize("name", NONE)
def test_a_dump_without_a_cluster_is_refused(command, tmp_path, name, words):
    content, said = NONE[name]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(content))
    done = command(*words, "--from", path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {path}")
    assert said in done.stderr


def test_pods_on_nodes_that_are_not_there_are_named(command, dump):
    items = [node("n1"), pod("here", "shop").on("n1")]
    items += [pod(f"lost-{i}", "shop").on("gone") for i in range(7)]
    done = command("plan", "--from", dump([item.manifest() for item in items]))
    assert done.exit_code == 0
    assert "7 pods on nodes that are not in the dump: shop/lost-0, shop/lost-1" in done.stderr
    assert "and 2 more" in done.stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("index", [0, 1, 150])
def test_an_item_that_is_null_costs_itself_alone_and_is_named(command, tmp_path, form, index):
    items = [node(f"n{i}").manifest() for i in range(300)]
    items.insert(index, None)
    path = tmp_path / f"dump.{form}"
    if form == "json":
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    else:
        path.write_text(
            "apiVersion: v1\nkind: List\nitems:\n" + "".join(f"- {json.dumps(i)}\n" for i in items)
        )
    done = command("plan", "-o", "json", "--from", path)
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["before"]["nodes"]) == 300
    assert f"skipped: items[{index}] is null, not an object" in done.stderr


@pytest.mark.parametrize("words", [
    ("plan", "--from", ""),
    ("plan", "--from", "x", ""),
    ("plan", "--from", "{}", "--config", ""),
    ("plan", "--from", "{}", "--output-file", ""),
    ("plan", "--kubeconfig", ""),
    ("explain", "pod", "a/b", "--from", ""),
    ("validate", ""),
    ("sandbox", "--kubeconfig-file", ""),
    ("reserve", "create", "-f", ""),
    ("run", "--config", ""),
])  # fmt: skip
def test_an_empty_path_is_wrong_use(command, dump, words):
    path = dump([node("n1").manifest()])
    done = command(*(word.format(path) for word in words))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "the path is empty" in done.stderr


def test_a_link_that_leads_nowhere_is_told_apart_from_no_file(command, dump, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    good = dump([node("n1").manifest()], "folder/nodes.json")
    link = folder / "pods.json"
    link.symlink_to("/no/such/file")
    for words in (
        ("plan", "--from", link),
        ("plan", "--from", folder),
        ("validate", link),
        ("plan", "--from", good, "--config", link),
    ):
        done = command(*words)
        assert done.exit_code == 2
        assert f"{link}: " in done.stderr
        assert "it is a symbolic link to /no/such/file, which does not exist" in done.stderr


HOSTILE = "a\x1b[2Jb\u202ec\u2066d\x9be"


@pytest.mark.parametrize("output", ["text", "json", "yaml", "html"])
def test_nothing_of_a_cluster_reaches_the_terminal_raw(command, dump, monkeypatch, output):
    monkeypatch.setenv("FORCE_COLOR", "1")
    web = pod("p", "shop").on("n1").manifest()
    web["metadata"]["name"] = HOSTILE
    lost = pod("q", "shop").on(HOSTILE).manifest()
    lost["metadata"]["name"] = HOSTILE
    damaged = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": HOSTILE, "labels": 1}}
    items = [node("n1").taint(HOSTILE).manifest(), node("n2").manifest(), web, lost, damaged]
    done = command("plan", "-o", output, "--from", dump(items))
    assert done.exit_code == 0
    for text in (done.stdout, done.stderr):
        assert not set(text) & set("\u202e\u2066\x9b")
        assert "\x1b[2J" not in text
    assert "\\u202e" in done.stderr
    if output == "json":
        assert any(HOSTILE in warning for warning in json.loads(done.stdout)["metadata"]["warnings"])
