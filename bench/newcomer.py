"""What a newcomer does in the first hour, by the command line on the sandbox: seconds and exit code of each task.

``python -m bench.newcomer`` prints one table: a task a line, with rescheduler, kubectl and descheduler side by side where they can do it
(kubectl on the PATH, ``python -m harness.strangers descheduler``). It ends with 1 if one of ours ends otherwise than it should.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.binaries import BinariesMissing
from harness.strangers.build import find
from harness.strangers.tools import DESCHEDULER
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.reports.table import flat_table
from rescheduler.testing import builders as b

PROGRAM: Final = "from rescheduler.cli.entry import main; main()"
CONFIGURATION: Final = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
_TOOLS: Final = ("rescheduler", "kubectl", "descheduler")
_PATIENCE_S: Final = 60.0
_NODE_CPU: Final = 4
_POD_CPU: Final = 0.5
Task = tuple[str, str, tuple[int, ...]]
"""What is done, the command line, the exit codes that are right."""
BEFORE: Final[Sequence[Task]] = (
    ("is it installed", "check --pre", (0, 1)),
    ("is everything in order", "check", (0, 1)),
    ("what is going on", "status", (1,)),
    ("first plan", "plan", (0,)),
    ("first plan for a machine", "plan -o json", (0,)),
    ("the plan as a page", "plan -o html --output-file {folder}/plan.html", (0,)),
    ("check a configuration", "validate {folder}/config.yaml", (0,)),
    ("a typo in a configuration", "validate {folder}/wrong.yaml", (2,)),
    ("plan against overload", "plan --config {folder}/low.yaml", (0,)),
    ("who holds the node", "explain node n1", (0,)),
    ("what comes back if it is evicted", "explain pod -n shop web-0 --replacement", (0,)),
)
DURING: Final[Sequence[Task]] = (
    ("the controller leads", "status", (0,)),
    ("where would it go", "move pod/web-0 -n shop --dry-run", (0,)),
    ("first move", "move -n shop -l app=web --from n1 --timeout 1m", (0, 3)),
    ("what was moved", "history -n shop", (0,)),
    ("would the node be empty", "drain n2 --plan", (0,)),
    ("drain a node", "drain n2 --timeout 1m", (0,)),
    ("undo", "uncordon n2", (0,)),
    ("which nodes can go", "consolidate --plan", (0,)),
    ("consolidate", "consolidate --nodes 1 --timeout 1m", (0,)),
    ("undo a consolidation", "uncordon -l rescheduler.dev/consolidation", (0,)),
    ("history", "history -A -o wide", (0,)),
    ("upgrade", "kubectl apply -k {manifests}", (0,)),
    ("is everything in order after it", "check", (0, 1)),
    ("hold capacity", "reserve create --name batch --cpu 1 --owner-selector app=batch -n shop", (0,)),
    ("what is held", "reserve list", (0,)),
    ("why is it held", "explain reservation batch", (0,)),
    ("give it back", "reserve release batch", (0,)),
    ("scale with capacity first, rehearsed", "scale deployment/web -n shop --replicas 5 --dry-run", (0,)),
    ("scale with capacity first", "scale deployment/web -n shop --replicas 5", (0,)),
    ("why is a pod pending", "explain pod --all-pending", (0,)),
    (
        "hold capacity at night",
        "reserve window create nightly --cron 0_3_*_*_* --duration 1h --pods 2 --cpu 1 --owner-selector app=n -n shop",
        (0,),
    ),
    ("which windows are there", "reserve window list", (0,)),
    ("remove a window", "reserve window delete nightly", (0,)),
    ("what would an uninstall do", "uninstall --dry-run", (0, 1)),
    ("pods that a stopped controller left", "release-gates --dry-run", (0, 1)),
)


AFTER: Final[Sequence[Task]] = (
    ("uninstall", "uninstall --yes", (0,)),
    ("is it gone", "check --pre", (0,)),
)
BESIDE: Final[Sequence[tuple[str, str]]] = (
    ("what is going on", "kubectl get pods,events -A"),
    ("who holds the node", "kubectl describe node {node}"),
    ("check a configuration", "descheduler taints --dry-run --descheduling-interval=0"),
    ("a typo in a configuration", "descheduler typo --dry-run --descheduling-interval=0"),
    ("first plan", "descheduler taints --dry-run --descheduling-interval=1s"),
    ("plan against overload", "descheduler low --dry-run --descheduling-interval=1s"),
    ("first move", "kubectl delete pod -n shop {pod}"),
    ("first move", "descheduler taints --descheduling-interval=1s"),
    ("what was moved", "kubectl get events -A --field-selector reason=Killing"),
    ("history", "kubectl get events -A"),
    ("drain a node", "kubectl drain {node} --ignore-daemonsets --timeout=60s"),
    ("undo", "kubectl uncordon {node}"),
    ("which nodes can go", "kubectl describe nodes"),
    ("consolidate", "kubectl drain {node} --ignore-daemonsets --timeout=60s"),
    ("consolidate", "descheduler high --descheduling-interval=1s"),
    ("undo a consolidation", "kubectl uncordon {node}"),
    ("scale with capacity first", "kubectl scale deployment/web -n shop --replicas=6"),
    ("why is a pod pending", "kubectl describe pod -n shop {pod}"),
    ("upgrade", "kubectl apply -k {manifests}"),
)
"""None of them reserves anything: what they evict comes back where the scheduler finds room, or nowhere."""
Cells = dict[tuple[str, str], str]
"""(task, tool) -> seconds and exit code."""
_LOW: Final = {"thresholds": {"cpu": 5}, "targetThresholds": {"cpu": 10}}
POLICIES: Final = {
    # name of the file: (extension point, plugin, its arguments)
    "taints": ("deschedule", "RemovePodsViolatingNodeTaints", {}),
    "typo": ("deschedule", "RemovePodsViolatingNodeTains", {}),
    "low": ("balance", "LowNodeUtilization", _LOW),
}


def _policy(point: str, plugin: str, arguments: Mapping[str, Any]) -> str:
    """A policy of descheduler with one plugin; JSON is YAML."""
    profile = {
        "name": "newcomer",
        "pluginConfig": [{"name": "DefaultEvictor"}, {"name": plugin, "args": arguments}],
        "plugins": {point: {"enabled": [plugin]}},
    }
    return json.dumps(
        {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    )


def _timed(line: Sequence[str], until: str = "") -> tuple[int, float, str]:
    """Exit code, seconds, and the last line of stderr. ``until``: a program that does not end is ended once it has written this."""
    begun_s = time.monotonic()
    if not until:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=180)
        said = done.stderr.strip().splitlines()[-1:]
        return done.returncode, time.monotonic() - begun_s, "".join(said)
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        stop = threading.Timer(30, running.kill)
        stop.start()
        found = any(until in told for told in running.stderr or ())
        seconds = time.monotonic() - begun_s
        stop.cancel()
        running.kill()
    return (0 if found else 1), seconds, ""


def _ours(kubeconfig: Path, folder: Path, pod: str, tasks: Sequence[Task], cells: Cells) -> int:
    """How many ended otherwise than they should."""
    wrong = 0
    for title, asked, codes in tasks:
        line = asked.replace("web-0", pod).format(folder=folder, manifests=manifests.FOLDER)
        words = [word.replace("_", " ") if "*" in word else word for word in line.split()]
        more = [] if words[0] == "validate" else ["--kubeconfig", str(kubeconfig)]
        program = [] if words[0] == "kubectl" else [sys.executable, "-c", PROGRAM]
        code, seconds, said = _timed([*program, *words, *more])
        wrong += code not in codes
        cells[title, "rescheduler"] = _cell(seconds, code)
        sys.stderr.write(f"{_cell(seconds, code):>12}  {line}\n")
        if code not in codes:
            sys.stderr.write(f"WRONG: {title}: {line}: {code}, wanted {codes}: {said}\n")
    return wrong


def _cell(seconds: float, code: int) -> str:
    return f"{seconds:.1f} s" + (f" ({code})" if code else "")


def _beside(kubeconfig: Path, folder: Path, api: Api, cells: Cells) -> None:
    """The same with the tools that people have. Pods that they evict are waited for, as ours waits for them."""
    for name, policy in POLICIES.items():
        (folder / f"{name}.policy").write_text(_policy(*policy))
    pod = node = ""
    kubectl, descheduler = shutil.which("kubectl"), None
    with contextlib.suppress(BinariesMissing):
        descheduler = find(DESCHEDULER)
    for title, asked in BESIDE:
        pod, node = _pods(api)[0] if not title.startswith("undo") else (pod, node)
        tool, *words = asked.format(pod=pod, node=node, manifests=manifests.FOLDER).split()
        program = {"kubectl": kubectl, "descheduler": descheduler}[tool]
        if program is None:
            cells[title, tool] = "missing"
            continue
        until = ""
        if tool == "descheduler":
            until = "" if words[-1].endswith("=0") else "Evicted pod"
            words = _descheduling(words, folder, api, node)
        begun_s = time.monotonic()
        code, seconds, _ = _timed([str(program), *words, "--kubeconfig", str(kubeconfig)], until)
        while "uncordon" not in words and len(_pods(api, ready=True)) < len(_pods(api)):
            seconds = time.monotonic() - begun_s
            if seconds > _PATIENCE_S:
                break
            time.sleep(0.1)
        cells[title, tool] = _cell(seconds, code)
        sys.stderr.write(f"{_cell(seconds, code):>12}  {tool} {' '.join(words)}\n")


def _descheduling(words: list[str], folder: Path, api: Api, node: str) -> list[str]:
    """Its flags; the node gets a taint that its pods do not tolerate, or the emptiest is the one to be emptied, as the policy says."""
    name, *rest = words
    if name == "high":
        pods = Counter(place for _, place in _pods(api))
        for place in pods:
            api.patch(f"/api/v1/nodes/{place}", {"spec": {"taints": None, "unschedulable": None}}).expect(200)
        share = 1 + 100 * min(pods.values()) * _POD_CPU / _NODE_CPU
        policy = _policy("balance", "HighNodeUtilization", {"thresholds": {"cpu": share}})
        (folder / "high.policy").write_text(policy)
    if name == "taints":
        taint = {"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}}
        api.patch(f"/api/v1/nodes/{node}", taint).expect(200)
    return [*rest, f"--policy-config-file={folder / f'{name}.policy'}", "--secure-port=0", "--v=1"]


def _table(cells: Cells) -> str:
    rows = [
        (title, *(cells.get((title, tool), "-") for tool in _TOOLS))
        for title in dict.fromkeys(t for t, _ in cells)
    ]
    return flat_table(("TASK", *(tool.upper() for tool in _TOOLS)), rows)


def _pods(api: Api, *, ready: bool = False) -> list[tuple[str, str]]:
    """Names, each with its node."""
    found = api.get("/api/v1/namespaces/shop/pods").items
    return sorted(
        (pod["metadata"]["name"], pod["spec"].get("nodeName") or "")
        for pod in found
        if not ready
        or any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions") or ()
        )
    )


def main() -> int:
    """The tasks in their order."""
    with (
        tempfile.TemporaryDirectory() as name,
        Sandbox(
            [SandboxNode(name=f"n{i}", cpu=str(_NODE_CPU)) for i in range(1, 5)],
            clock=time.time,
            kubelet=KubeletSettings(start_s=0.2, ready_s=0.2, stop_s=0.2),
        ) as cluster,
    ):
        folder = Path(name)
        kubeconfig = folder / "kubeconfig"
        (folder / "config.yaml").write_text(CONFIGURATION)
        low = json.dumps([{"name": "LowNodeUtilization", **_LOW}])
        (folder / "low.yaml").write_text(f"{CONFIGURATION}policies: {low}\n")
        (folder / "wrong.yaml").write_text(f"{CONFIGURATION}aggresiveness: 0.3\n")
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, [one for one in manifests.load() if one["kind"] != "Deployment"])
        api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        web = b.deployment("web", "shop").cpu(f"{_POD_CPU}").replicas(3).manifest()
        api.create("/apis/apps/v1/namespaces/shop/deployments", {**web, "metadata": {"name": "web"}}).expect(
            201
        )
        pods = "/api/v1/namespaces/shop/pods"
        while sum(bool(pod["spec"].get("nodeName")) for pod in api.get(pods).items) < 3:
            time.sleep(0.2)
        pod = api.get(pods).items[0]["metadata"]["name"]
        cells: Cells = {}
        wrong = _ours(kubeconfig, folder, pod, BEFORE, cells)
        controller = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", "--port", "0", "--kubeconfig", str(kubeconfig)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            leads = [sys.executable, "-c", PROGRAM, "status", "--no-plan", "--kubeconfig", str(kubeconfig)]
            ends_s = time.monotonic() + _PATIENCE_S
            while _timed(leads)[0] and time.monotonic() < ends_s:
                time.sleep(0.5)
            wrong += _ours(kubeconfig, folder, pod, DURING, cells)
            _beside(kubeconfig, folder, api, cells)
        finally:
            controller.terminate()
            controller.wait(30)
        time.sleep(1)
        wrong += _ours(kubeconfig, folder, pod, AFTER, cells)
    sys.stdout.write(_table(cells))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
