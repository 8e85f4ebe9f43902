"""The real Kubernetes control plane on the loopback interface, for tests: etcd and the three servers.

Nodes and kubelets are fake (``nodes.add_node`` and ``kube_sandbox.kubelet``). Promises: random free ports,
everything in one temporary folder, all children ended on exit, kube-scheduler started again when it dies (it may,
when the API server restarts), logs shown when a start fails. ``python -m harness.controlplane build``
builds the programs; ``... run`` starts one and prints its kubeconfig.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import yaml

from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.binaries import Binaries, find
from harness.controlplane.in_force import wait_until_mutated
from harness.controlplane.pki import Pki, make_pki
from harness.controlplane.processes import Process, free_port
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import DEFAULT_NAMESPACE

START_LIMIT_S: Final = 60.0
NODE_GRACE_S: Final = 24 * 3600
"""Fake nodes send no heartbeats: the node controller waits this long before it doubts them."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
WITHOUT_POLICIES: Final = (
    "--feature-gates=MutatingAdmissionPolicy=false",
    f"--runtime-config={_ADMISSION}/mutatingadmissionpolicies=false,{_ADMISSION}/mutatingadmissionpolicybindings=false",
)
"""Flags of an API server like one before 1.36: it has no MutatingAdmissionPolicy."""
SECOND: Final = "kube-apiserver-2"
POLICIES_SINCE: Final = 36
TOKENS: Final = {
    "admin": ("admin-token", "system:masters"),
    "system:kube-scheduler": ("scheduler-token", ""),
    "system:kube-controller-manager": ("controllers-token", "system:masters"),
}


def without_policies() -> tuple[str, ...]:
    """WITHOUT_POLICIES for an API server of 1.36 or later; nothing for an older one. Raises BinariesMissing."""
    return WITHOUT_POLICIES if find().kubernetes_minor >= POLICIES_SINCE else ()


class StartFailed(Exception):  # noqa: N818  says what happened
    """A program did not come up in time; the text ends with the tail of its log."""


class ControlPlane:
    """Context manager: a running control plane. Not safe for use by several threads at once."""

    def __init__(
        self,
        *,
        binaries: Binaries | None = None,
        apiserver_flags: Sequence[str] = (),
        second_apiserver: Sequence[str] | None = None,
    ) -> None:
        """Raises BinariesMissing.

        ``apiserver_flags``: more flags of kube-apiserver, see WITHOUT_POLICIES. ``second_apiserver``: flags that a second one on
        the same etcd has besides; the controller manager talks to that one, everybody else to the first.
        """
        self._apiserver_flags = tuple(apiserver_flags)
        self._second_apiserver = second_apiserver
        self.binaries = binaries or find()
        self.token = TOKENS["admin"][0]
        self._folder = Path()
        self._processes: dict[str, Process] = {}
        self._ended = threading.Event()
        self._lock = threading.RLock()
        self.url = ""
        self.second_url = ""
        self.ca = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The temporary folder: logs, keys, kubeconfigs, etcd's data."""
        return self._folder

    @property
    def kubeconfig(self) -> Path:
        """Path of the administrator's kubeconfig."""
        return self._folder / "admin.kubeconfig"

    @property
    def kubectl(self) -> str:
        """Path of kubectl."""
        return self.binaries.path("kubectl")

    def api(self, token: str | None = None) -> Api:
        """A raw client; by default the administrator's."""
        return Api(HttpTransport(self.url, self.token if token is None else token, self.ca))

    def second_api(self) -> Api:
        """The administrator's raw client of the second API server."""
        return Api(HttpTransport(self.second_url, self.token, self.ca))

    def start(self) -> None:
        """Starts everything and waits until it answers. Raises StartFailed."""
        self._folder = Path(tempfile.mkdtemp(prefix="rescheduler-controlplane-"))
        try:
            pki = make_pki(self._folder)
            self.ca = pki.ca.read_text()
            port, etcd_port, etcd_peer = free_port(), free_port(), free_port()
            self.url = f"https://127.0.0.1:{port}"
            self._write_credentials()
            processes = [
                self._etcd(etcd_port, etcd_peer),
                self._apiserver(pki, port, etcd_port),
                self._controller_manager(pki),
                self._scheduler(),
            ]
            if self._second_apiserver is not None:
                processes.append(self._another_apiserver(pki, etcd_port, self._second_apiserver))
            self._processes = {process.name: process for process in processes}
            self._processes["etcd"].start()
            self._processes["kube-apiserver"].start()
            self._wait("kube-apiserver", self._ready)
            if self.second_url:
                self._processes[SECOND].start()
                self._wait(SECOND, lambda: self.second_api().get("/readyz").ok)
            self._processes["kube-controller-manager"].start()
            self._processes["kube-scheduler"].start()
            self._wait("kube-controller-manager", self._default_service_account)
        except BaseException:
            self.stop()
            raise
        threading.Thread(target=self._supervise, name="control-plane-supervisor", daemon=True).start()

    def stop(self) -> None:
        """Ends all children and removes the folder."""
        self._ended.set()
        with self._lock:
            for name in ("kube-scheduler", "kube-controller-manager", SECOND, "kube-apiserver", "etcd"):
                if name in self._processes:
                    process = self._processes[name]
                    process.wanted = False
                    process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill_scheduler(self) -> None:
        """SIGKILL to kube-scheduler; it stays away until ``start_scheduler``."""
        with self._lock:
            self._processes["kube-scheduler"].wanted = False
            self._processes["kube-scheduler"].kill()

    def start_scheduler(self) -> None:
        """Starts kube-scheduler."""
        with self._lock:
            self._processes["kube-scheduler"].start()

    def restart_scheduler(self) -> None:
        """SIGKILL and start at once."""
        self.kill_scheduler()
        self.start_scheduler()

    def stop_apiserver(self) -> None:
        """SIGKILL to the API server: connections break, then are refused; data stay in etcd."""
        with self._lock:
            self._processes["kube-apiserver"].wanted = False
            self._processes["kube-apiserver"].kill()

    def start_apiserver(self) -> None:
        """Starts the API server on the same port and waits until it is ready and takes objects of every kind."""
        with self._lock:
            self._processes["kube-apiserver"].start()
        self._wait("kube-apiserver", self._ready)
        definitions = self.api().get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").expect().items
        wait_until_mutated(self.api(), [{**obj, "kind": "CustomResourceDefinition"} for obj in definitions])

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Path of a kubeconfig with a token of that service account, valid for a day."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        token = self.api().create(path, request).expect().body["status"]["token"]
        return self._write_kubeconfig(f"{namespace}-{service_account}", token)

    def account(self, namespace: str = DEFAULT_NAMESPACE, name: str = DEFAULT_NAMESPACE) -> Api:
        """A raw client with the rights of a service account, by default the controller's."""
        return Api.from_kubeconfig(self.kubeconfig_for(namespace, name))

    def logs(self) -> str:
        """Tails of all logs, for a failure message."""
        return "\n".join(f"--- {name}\n{process.log_tail()}" for name, process in self._processes.items())

    def _write_credentials(self) -> None:
        rows = [f'{token},{user},{user},"{group}"' for user, (token, group) in TOKENS.items()]
        (self._folder / "tokens.csv").write_text("\n".join(rows) + "\n")
        for user, (token, _) in TOKENS.items():
            self._write_kubeconfig(user.removeprefix("system:"), token)

    def _write_kubeconfig(self, name: str, token: str, server: str = "") -> Path:
        path = self._folder / f"{name}.kubeconfig"
        authority = base64.b64encode(self.ca.encode()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server or self.url, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }  # fmt: skip
        path.write_text(yaml.safe_dump(document))
        path.chmod(0o600)
        return path

    def _process(self, program: str, *flags: str, name: str = "") -> Process:
        name = name or program
        return Process(name, [self.binaries.path(program), *flags], self._folder / f"{name}.log")

    def _etcd(self, port: int, peer_port: int) -> Process:
        peer = f"http://127.0.0.1:{peer_port}"
        client = f"http://127.0.0.1:{port}"
        return self._process(
            "etcd", f"--data-dir={self._folder / 'etcd'}", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync", "--log-level=warn",
        )  # fmt: skip

    def _another_apiserver(self, pki: Pki, etcd_port: int, flags: Sequence[str]) -> Process:
        port = free_port()
        self.second_url = f"https://127.0.0.1:{port}"
        user = "system:kube-controller-manager"
        self._write_kubeconfig(user.removeprefix("system:"), TOKENS[user][0], self.second_url)
        return self._apiserver(pki, port, etcd_port, *flags, name=SECOND)

    def _apiserver(self, pki: Pki, port: int, etcd_port: int, *flags: str, name: str = "") -> Process:
        return self._process(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd_port}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={port}",
            f"--tls-cert-file={pki.server_certificate}", f"--tls-private-key-file={pki.server_key}",
            f"--token-auth-file={self._folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.service_account_key}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
            "--allow-privileged=true", "--shutdown-delay-duration=0s", *self._apiserver_flags, *flags,
            name=name,
        )  # fmt: skip

    def _controller_manager(self, pki: Pki) -> Process:
        return self._process(
            "kube-controller-manager", f"--kubeconfig={self._folder / 'kube-controller-manager.kubeconfig'}",
            f"--service-account-private-key-file={pki.service_account_key}", f"--root-ca-file={pki.ca}",
            "--leader-elect=false", "--secure-port=0", f"--node-monitor-grace-period={NODE_GRACE_S}s",
            "--node-monitor-period=1s", "--kube-api-qps=500", "--kube-api-burst=1000",
            "--concurrent-rc-syncs=5",
        )  # fmt: skip

    def _scheduler(self) -> Process:
        settings = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self._folder / "kube-scheduler.kubeconfig"), "qps": 500, "burst": 1000},
        }  # fmt: skip
        file = self._folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(settings))
        return self._process(
            "kube-scheduler", f"--config={file}", "--secure-port=0", "--authentication-skip-lookup=true"
        )

    def _ready(self) -> bool:
        return self.api().get("/readyz").ok

    def _default_service_account(self) -> bool:
        """The ServiceAccount controller works: before that, pods are refused."""
        return self.api().get("/api/v1/namespaces/default/serviceaccounts/default").ok

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Polls until ready. Raises StartFailed when the program ended or the limit is over."""
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            if not self._processes[name].running:
                raise StartFailed(f"{name} ended while starting\n{self._processes[name].log_tail()}")
            with contextlib.suppress(TransportError):
                if ready():
                    return
            time.sleep(0.05)
        raise StartFailed(
            f"{name} was not ready after {START_LIMIT_S:.0f} s\n{self._processes[name].log_tail()}"
        )

    def _supervise(self) -> None:
        """As a kubelet does: starts a program again that has died by itself."""
        while not self._ended.wait(0.2):
            with self._lock:
                for process in self._processes.values():
                    if process.wanted and not process.running and not self._ended.is_set():
                        process.start()
