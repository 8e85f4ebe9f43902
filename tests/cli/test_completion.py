"""Completion, the names of the program, and words that are mistyped."""

import subprocess
import sys
import time

import pytest
import yaml

from harness.controlplane.processes import free_port
from rescheduler.cli.completion import LIMIT_S, completions
from rescheduler.cli.main import main
from rescheduler.suggestions import did_you_mean


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_this_program(command, shell):
    done = command("completion", shell)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "_RESCHEDULER_COMPLETE" in done.stdout
    assert "rescheduler" in done.stdout


def test_bash_takes_the_script(command):
    script = command("completion", "bash").stdout
    done = subprocess.run(
        ["bash", "-n"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(command):
    assert command("completion", "tcsh").exit_code == 2


@pytest.mark.parametrize(("words", "expected"), [
    (["dra"], ["drain"]),
    (["reserve", "cr"], ["create"]),
    (["drain", "--ignore"], ["--ignore-daemonsets"]),
    (["plan", "--output", "h"], ["html"]),
])  # fmt: skip
def test_kubectl_gets_what_the_last_word_can_become(words, expected):
    *lines, directive = completions(words)
    assert directive == ":4"
    assert [line.partition("\t")[0] for line in lines] == expected


def test_without_a_word_all_commands_are_offered_with_what_they_do():
    *lines, _ = completions([""])
    assert [line.partition("\t")[0] for line in lines] == list(main.commands)
    assert all("\t" in line for line in lines)


def test_completing_a_command_imports_none_of_them():
    program = (
        "import sys; from rescheduler.cli.completion import completions; completions(['']);"
        "print([m for m in ('numpy', 'kubernetes', 'rescheduler.scheduling') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def named(cluster):
    """Nodes and pods to be completed: the words that name their cluster."""
    api, kubeconfig = cluster
    spec = {"containers": [{"name": "c", "image": "c"}]}
    for kind, path, name in (
        ("Node", "/api/v1/nodes", "completed-a"),
        ("Node", "/api/v1/nodes", "completed-b"),
        ("Namespace", "/api/v1/namespaces", "elsewhere"),
        ("Pod", "/api/v1/namespaces/default/pods", "web-1"),
        ("Pod", "/api/v1/namespaces/elsewhere/pods", "far-1"),
    ):
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        api.create(path, body | ({"spec": spec} if kind == "Pod" else {})).expect(201)
    return ["--kubeconfig", kubeconfig]


@pytest.mark.parametrize(("words", "expected"), [
    (["drain", "comp"], ["completed-a", "completed-b"]),
    (["drain", "completed-a", "comp"], ["completed-b"]),
    (["uncordon", "nothing-of-that-name"], []),
    (["move", "pod", "we"], ["web-1"]),
    (["move", "pod/we"], ["pod/web-1"]),
    (["move", "-n", "elsewhere", "pod", ""], ["far-1"]),
    (["move", "web-1", "--to", "completed-b"], ["completed-b"]),
    (["explain", "pod", "we"], ["web-1"]),
    (["reserve", "release", "no"], []),
], ids=" ".join)  # fmt: skip
def test_names_of_the_cluster_are_completed(monkeypatch, named, words, expected):
    monkeypatch.setattr("rescheduler.cli.completion.LIMIT_S", 60.0)  # the machine may be busy
    group = 2 if words[0] in ("reserve", "explain") else 1
    found = completions([*words[:group], *named, *words[group:]])
    assert [line.partition("\t")[0] for line in found[:-1]] == expected


@pytest.mark.parametrize("kubeconfig", ["no/such/file", "unreachable"])
def test_what_cannot_be_asked_completes_nothing_and_says_nothing(tmp_path, capsys, kubeconfig):
    if kubeconfig == "unreachable":
        path = tmp_path / "kubeconfig"
        server = {"server": f"http://127.0.0.1:{free_port()}"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": server}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }
        path.write_text(yaml.safe_dump(document))
        kubeconfig = str(path)
    began_s = time.monotonic()
    assert completions(["drain", "--kubeconfig", kubeconfig, "n"]) == [":4"]
    assert time.monotonic() - began_s < 10 * LIMIT_S
    assert capsys.readouterr() == ("", "")


def test_a_plugin_of_kubectl_is_called_as_people_call_it():
    program = (
        "import sys; sys.argv = ['/usr/local/bin/kubectl-rescheduler', 'plan', '--no-such'];"
        "from rescheduler.cli.entry import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr.startswith("Usage: kubectl rescheduler plan ")) == (2, True)


def test_the_version_is_a_flag_too(command):
    assert command("--version").stdout == command("version").stdout


@pytest.mark.parametrize(("words", "said"), [
    (("drian",), "No such command 'drian'; did you mean drain?"),
    (("reserve", "craete"), "No such command 'craete'; did you mean create?"),
    (("xyzzy",), "No such command 'xyzzy'."),
])  # fmt: skip
def test_a_mistyped_command_gets_a_suggestion(command, words, said):
    done = command(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_of_very_many_names_only_those_with_the_same_beginning_are_compared():
    known = [f"node-{i}" for i in range(20_000)] + ["gpu-node-17"]
    assert "gpu-node-17" in did_you_mean("gpu-nod-17", known)


@pytest.mark.parametrize(("name", "known", "said"), [
    ("cordn", ("cordon", "uncordon", "drain"), "; did you mean cordon?"),
    ("web-1", ("web-3", "web-2", "db-1"), "; did you mean web-2 or web-3?"),
    ("web-1", ("web-3", "web-2", "web-4"), "; did you mean web-2, web-3 or web-4?"),
    ("node-x", tuple(f"node-{i}" for i in range(9)), "; did you mean node-0, or one of 8 others that are like it?"),
    ("web", (), ""),
])  # fmt: skip
def test_only_the_nearest_name_is_suggested_and_many_equally_near_ones_are_counted(name, known, said):
    assert did_you_mean(name, known) == said
