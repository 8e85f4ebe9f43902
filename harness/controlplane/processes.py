"""Child processes of a test control plane: started with a log file, watched, ended by their own id only."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

STOP_LIMIT_S: Final = 5.0
LOG_TAIL_BYTES: Final = 4000
SELDOM_COLLECTED: Final = {"GOGC": "400"}
"""For programs in Go: a tenth less CPU to start and install a control plane, for a third more memory (measured on 1.37)."""

_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The lowest and the highest port that connections which go out are given."""
_LOWEST: Final = 10_000
_TRIES: Final = 50
_CHANCE: Final = random.SystemRandom()


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago.

    Linux gives none of these to a connection that goes out: one from the range of those was taken before the program listened.
    """
    outgoing = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 0
    given = (
        _CHANCE.sample(range(max(_LOWEST, outgoing // 2), outgoing), k=_TRIES)
        if outgoing > 2 * _LOWEST
        else []
    )
    for port in (*given, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found: int = probe.getsockname()[1]
            return found
    raise OSError("no port of the loopback interface is free")


@dataclass(slots=True)
class Process:
    """One program with its command line; may be started, ended and started again. Context manager: it runs."""

    name: str
    command: list[str]
    log: Path
    starts: int = 0
    wanted: bool = False
    """True while it should run: a supervisor starts it again when it has died."""
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the child is alive."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        """The child's process id, while it runs."""
        return self._child.pid if self._child is not None and self.running else None

    def start(self) -> None:
        """Starts it, unless it runs. Its output is appended to the log."""
        self.wanted = True
        if self.running:
            return
        self.starts += 1
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(  # noqa: S603  the command is ours
                self.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=SELDOM_COLLECTED | os.environ,
            )

    def kill(self) -> None:
        """SIGKILL, as a crash: the supervisor may start it again."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
            self._child.wait()

    def stop(self, limit_s: float = STOP_LIMIT_S) -> int | None:
        """SIGTERM, then SIGKILL after a limit; it stays stopped. Gives its exit code, if it was ever started."""
        self.wanted = False
        if self._child is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._child.returncode

    def log_tail(self) -> str:
        """The end of its log, for a failure message."""
        text = self.log.read_bytes()[-LOG_TAIL_BYTES:] if self.log.exists() else b""
        return text.decode(errors="replace")
