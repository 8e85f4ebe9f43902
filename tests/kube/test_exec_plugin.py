"""A credential plugin that hangs, fails or talks nonsense is told in words, and nothing of it goes on."""

import json
import os
import sys

import pytest

from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.exec_plugin import ExecPlugin, credential
from tests.waiting import until

VERSION = "client.authentication.k8s.io/v1"
GOOD = {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": "t"}}


def plugin(code, command=sys.executable, args=None):
    return ExecPlugin(command, tuple(args or ("-c", code)), api_version=VERSION)


def test_its_token_is_taken_and_it_is_told_who_asks():
    code = f"import os, json; assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'; print({json.dumps(GOOD)!r})"
    assert credential(plugin(code)) == {"token": "t"}


@pytest.mark.parametrize(("code", "said"), [
    ("import sys; print('log in first', file=sys.stderr); sys.exit(3)", "it ended with 3: log in first"),
    ("print('hello')", "it printed no JSON"),
    ("print('[]')", "it gave no credentials"),
    (f"print({json.dumps({**GOOD, 'status': {}})!r})", "it gave no credentials"),
    (f"print({json.dumps({**GOOD, 'apiVersion': 'v0'})!r})", "it speaks 'v0'"),
])  # fmt: skip
def test_what_is_wrong_with_it_is_said(code, said):
    with pytest.raises(KubeconfigError) as refused:
        credential(plugin(code))
    assert said in str(refused.value)
    assert f"credential plugin '{sys.executable}'" in str(refused.value)


def test_one_that_is_not_there_is_named():
    with pytest.raises(KubeconfigError, match=r"'/no/such/plugin': No such file or directory \(install it"):
        credential(plugin("", command="/no/such/plugin"))


def test_one_that_hangs_is_ended_with_its_children(tmp_path):
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait"
    for deadline_s in (2.0, 10.0, 100.0):  # on a slow machine it has not begun after the first
        with pytest.raises(KubeconfigError, match=f"no answer within {deadline_s:g} s"):
            credential(plugin("", command="/bin/sh", args=["-c", script]), deadline_s=deadline_s)
        if pids.exists():
            break
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not running(pid), 120)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 -- a child of a killed process may be a zombie
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
    finally:
        os.sched_yield()
