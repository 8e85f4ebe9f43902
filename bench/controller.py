"""The controller process at size, measured from outside: memory, time to the first decision, CPU under events.

``python -m bench.controller [NODES]``: ``rescheduler run --dry-run`` reads a generated cluster from ``bench.apiserver``
(WatchList, then events) until it has decided; then 2,000 pods a second change for a while. Memory is that
of /proc; CPU seconds are those of the process with all its threads.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RATE = 2_000
WATCH_S = 20.0
READY_LIMIT_S = 300.0
CONFIG = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: balanced
interval: 1h
server: {port: %d}
policies:
- {name: LowNodeUtilization, thresholds: {cpu: 20, memory: 20, pods: 20}, targetThresholds: {cpu: 60, memory: 60, pods: 60}}
- name: NodeAffinity
  types: [required, preferred]
- name: InterPodAntiAffinity
- name: NodeTaints
  after: 0s
- name: TopologySpread
"""


def memory_mb(pid: int, field: str) -> float:
    """VmRSS (now) or VmHWM (peak) of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else 0.0


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def process(arguments: list[str], log: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A child that is ended with the block; its stderr goes to ``log``."""
    with (log or Path(os.devnull)).open("w", encoding="utf-8") as stderr:
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            yield child
        finally:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def get(url: str) -> bytes:
    """The body at ``url``."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server
        body: bytes = answer.read()
    return body


def decided(log: Path) -> dict[str, object] | None:
    """The line that tells of the first decision."""
    for line in log.read_text(encoding="utf-8").splitlines():
        if '"Decided"' in line:
            found: dict[str, object] = json.loads(line)
            return found
    return None


def wait_decided(child: subprocess.Popen[str], log: Path) -> dict[str, object]:
    """The first decision; raises RuntimeError if the controller ends or takes too long."""
    end_s = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < end_s:
        line = decided(log)
        if line is not None:
            return line
        if child.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"no decision: {log.read_text(encoding='utf-8')[-2000:]}")


def measure(nodes: int) -> dict[str, float]:
    """Figures of one controller process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = [sys.executable, "-m", "bench.apiserver", "--nodes", str(nodes)]
        with process(server) as api:
            port = int(api.stdout.readline()) if api.stdout else 0
            root = f"http://127.0.0.1:{port}"
            (folder / "config.yaml").write_text(CONFIG % 0, encoding="utf-8")
            (folder / "kubeconfig").write_text(kubeconfig(root), encoding="utf-8")
            log = folder / "log"
            command = [
                str(Path(sys.executable).with_name("rescheduler")), "run", "--dry-run", "--log-format", "json",
                "--kubeconfig", str(folder / "kubeconfig"), "--config", str(folder / "config.yaml"),
            ]  # fmt: skip
            begun_s = time.monotonic()
            with process(command, log) as controller:
                line = wait_decided(controller, log)
                ready_s = time.monotonic() - begun_s
                return {
                    "ready_s": ready_s,
                    "start_cpu_s": cpu_s(controller.pid),
                    "decision_s": float(str(line.get("seconds", 0))),
                    **_under_events(controller.pid, root),
                }


def _under_events(pid: int, root: str) -> dict[str, float]:
    time.sleep(5)
    idle = {"memory_mb": memory_mb(pid, "VmRSS"), "peak_memory_mb": memory_mb(pid, "VmHWM")}
    sent = int(json.loads(get(f"{root}/bench/rate?per_second={RATE}"))["sent"])
    time.sleep(1)
    begun_s, before_s = time.monotonic(), cpu_s(pid)
    time.sleep(WATCH_S)
    elapsed_s, used_s = time.monotonic() - begun_s, cpu_s(pid) - before_s
    sent = int(json.loads(get(f"{root}/bench/rate?per_second=0"))["sent"]) - sent
    time.sleep(2)
    events = sent * elapsed_s / (elapsed_s + 1)
    return {
        **idle,
        "events_per_s": events / elapsed_s,
        "cpu_share": used_s / elapsed_s,
        "us_per_event_all_in": used_s / events * 1e6,
        "memory_after_mb": memory_mb(pid, "VmRSS"),
        "peak_after_mb": memory_mb(pid, "VmHWM"),
    }


def kubeconfig(server: str) -> str:
    """A kubeconfig, as JSON, of a server that asks for no credentials."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {"server": server}}],
            "users": [{"name": "bench", "user": {}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        }
    )


def main() -> None:
    """Print the figures."""
    nodes = int(sys.argv[1]) if sys.argv[1:] else 5000
    print(json.dumps({"nodes": nodes, **{k: round(v, 3) for k, v in measure(nodes).items()}}))


if __name__ == "__main__":
    main()
