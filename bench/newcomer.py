"""Thirty things that a newcomer does in the first hour, by the command line on the sandbox, each with its seconds and exit code.

``python bench/newcomer.py`` prints a table; it ends with 1 if one of them ends otherwise than it should.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
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


def _run(kubeconfig: Path, folder: Path, line: str) -> tuple[int, float, str]:
    words = [word.replace("_", " ") if "*" in word else word for word in line.format(folder=folder).split()]
    offline = words[0] == "validate"
    more = [] if offline else ["--kubeconfig", str(kubeconfig)]
    begun_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    return (
        done.returncode,
        time.monotonic() - begun_s,
        done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "",
    )


def _rows(kubeconfig: Path, folder: Path, pod: str, tasks: Sequence[Task]) -> int:
    wrong = 0
    for title, asked, codes in tasks:
        line = asked.replace("web-0", pod)
        code, seconds, said = _run(kubeconfig, folder, line)
        wrong += code not in codes
        mark = "" if code in codes else f"  WRONG, wanted {codes}: {said}"
        sys.stdout.write(f"{seconds:6.1f} s  {code}  {title}: rescheduler {line}{mark}\n")
    return wrong


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
        finally:
            controller.terminate()
            controller.wait(30)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
