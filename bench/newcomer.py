"""What a newcomer does in the first hour, by the command line on the sandbox, each with its seconds and exit code.

``python -m bench.newcomer`` prints a table, then the same with kubectl and descheduler where they can do it (kubectl on the PATH,
``python -m harness.strangers descheduler``). It ends with 1 if one of ours ends otherwise than it should.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.binaries import BinariesMissing
from harness.strangers.build import find
from harness.strangers.tools import DESCHEDULER
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.testing import builders as b

PROGRAM: Final = "from rescheduler.cli.entry import main; main()"
CONFIGURATION: Final = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
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
    ("first plan", "descheduler --dry-run"),
    ("first move", "descheduler"),
    ("move one pod", "kubectl delete pod -n shop {pod}"),
    ("drain a node", "kubectl drain {node} --ignore-daemonsets --timeout=60s"),
    ("undo", "kubectl uncordon {node}"),
    ("scale", "kubectl scale deployment/web -n shop --replicas=6"),
    ("why is a pod pending", "kubectl describe pod -n shop {pod}"),
    ("upgrade", "kubectl apply -k {manifests}"),
)
"""None of them reserves anything: what they evict comes back where the scheduler finds room, or nowhere."""
POLICY: Final = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: newcomer
  pluginConfig:
  - {name: DefaultEvictor}
  - {name: RemovePodsViolatingNodeTaints}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""


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


def _rows(kubeconfig: Path, folder: Path, pod: str, tasks: Sequence[Task]) -> int:
    wrong = 0
    for title, asked, codes in tasks:
        line = asked.replace("web-0", pod)
        words = [
            word.replace("_", " ") if "*" in word else word for word in line.format(folder=folder).split()
        ]
        more = [] if words[0] == "validate" else ["--kubeconfig", str(kubeconfig)]
        code, seconds, said = _timed([sys.executable, "-c", PROGRAM, *words, *more])
        wrong += code not in codes
        mark = "" if code in codes else f"  WRONG, wanted {codes}: {said}"
        sys.stdout.write(f"{seconds:6.1f} s  {code}  {title}: rescheduler {line}{mark}\n")
    return wrong


def _beside(kubeconfig: Path, folder: Path, api: Api) -> None:
    """The same with the tools that people have. Pods that they evict are waited for, as ours waits for them."""
    (folder / "policy.yaml").write_text(POLICY)
    pod = node = ""
    kubectl, descheduler = shutil.which("kubectl"), None
    with contextlib.suppress(BinariesMissing):
        descheduler = find(DESCHEDULER)
    for title, asked in BESIDE:
        pod, node = _pods(api)[0] if title != "undo" else (pod, node)
        tool, *words = asked.format(pod=pod, node=node, manifests=manifests.FOLDER).split()
        program = {"kubectl": kubectl, "descheduler": descheduler}[tool]
        if program is None:
            sys.stdout.write(f"     -  -  {title}: {tool} is missing\n")
            continue
        line, until = [str(program), *words, "--kubeconfig", str(kubeconfig)], ""
        if tool == "descheduler":
            taint = {"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}}
            api.patch(f"/api/v1/nodes/{node}", taint).expect(200)
            line += [
                f"--policy-config-file={folder / 'policy.yaml'}",
                "--descheduling-interval=1s",
                "--secure-port=0",
                "--v=1",
            ]
            until = "Evicted pod"
        begun_s = time.monotonic()
        code, seconds, said = _timed(line, until)
        while (
            words[:1] != ["uncordon"]
            and len(_pods(api, ready=True)) < len(_pods(api))
            and time.monotonic() < begun_s + 60
        ):
            time.sleep(0.1)
            seconds = time.monotonic() - begun_s
        sys.stdout.write(f"{seconds:6.1f} s  {code}  {title}: {asked}{f'  {said}' if code else ''}\n")


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
            [SandboxNode(name=f"n{i}", cpu="4") for i in range(1, 5)],
            clock=time.time,
            kubelet=KubeletSettings(start_s=0.2, ready_s=0.2, stop_s=0.2),
        ) as cluster,
    ):
        folder = Path(name)
        kubeconfig = folder / "kubeconfig"
        (folder / "config.yaml").write_text(CONFIGURATION)
        (folder / "wrong.yaml").write_text(f"{CONFIGURATION}aggresiveness: 0.3\n")
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, [one for one in manifests.load() if one["kind"] != "Deployment"])
        api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        web = b.deployment("web", "shop").cpu("500m").replicas(3).manifest()
        api.create("/apis/apps/v1/namespaces/shop/deployments", {**web, "metadata": {"name": "web"}}).expect(
            201
        )
        pods = "/api/v1/namespaces/shop/pods"
        while sum(bool(pod["spec"].get("nodeName")) for pod in api.get(pods).items) < 3:
            time.sleep(0.2)
        pod = api.get(pods).items[0]["metadata"]["name"]
        wrong = _rows(kubeconfig, folder, pod, BEFORE)
        controller = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", "--port", "0", "--kubeconfig", str(kubeconfig)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(4)
            wrong += _rows(kubeconfig, folder, pod, DURING)
            sys.stdout.write("\nbeside them, with the controller there and idle:\n")
            _beside(kubeconfig, folder, api)
            sys.stdout.write("\nat the end:\n")
        finally:
            controller.terminate()
            controller.wait(30)
        time.sleep(1)
        wrong += _rows(kubeconfig, folder, pod, AFTER)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
