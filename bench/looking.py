"""What it costs to look: ``status`` and ``history`` of a large cluster, each as a process of its own.

    python -m bench.looking --nodes 5000 --moves 3000

``bench.apiserver`` serves the cluster; requests are counted there. CPU seconds are those of the command (user and system),
memory is its peak.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.controller import get, kubeconfig, process
from rescheduler.reports.table import table

COMMANDS = (
    ("status",),
    ("status", "--no-plan"),
    ("history",),
    ("history", "-A"),
    ("history", "-A", "-o", "json"),
)


class Cost(NamedTuple):
    """Of one command."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    requests: int


def cost(words: tuple[str, ...], root: str, folder: Path) -> Cost:
    """Run the command once."""
    get(f"{root}/bench/requests")
    command = [
        str(Path(sys.executable).with_name("rescheduler")),
        *words,
        "--kubeconfig",
        str(folder / "kubeconfig"),
    ]
    begun_s = time.monotonic()
    with (folder / "out").open("w", encoding="utf-8") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError((folder / "out").read_text(encoding="utf-8")[-2000:])
    requests = int(get(f"{root}/bench/requests"))
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - begun_s, used.ru_maxrss / 1024, requests)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure status and history.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--moves", type=int, default=3000)
    parser.add_argument("--tries", type=int, default=3)
    given = parser.parse_args()
    server = [sys.executable, "-m", "bench.apiserver", f"--nodes={given.nodes}", f"--moves={given.moves}"]
    rows = []
    with tempfile.TemporaryDirectory() as name, process(server) as api:
        root = f"http://127.0.0.1:{int(api.stdout.readline()) if api.stdout else 0}"
        (Path(name) / "kubeconfig").write_text(kubeconfig(root), encoding="utf-8")
        for words in COMMANDS:
            best = min(cost(words, root, Path(name)) for _ in range(given.tries))
            rows.append(
                (
                    " ".join(words),
                    f"{best.cpu_s:.2f}",
                    f"{best.wall_s:.2f}",
                    f"{best.peak_mb:.0f}",
                    str(best.requests),
                )
            )
    header = ("COMMAND", "CPU S", "WALL S", "PEAK MB", "REQUESTS")
    print("\n".join(table(header, rows, right=frozenset({1, 2, 3, 4}))))


if __name__ == "__main__":
    main()
