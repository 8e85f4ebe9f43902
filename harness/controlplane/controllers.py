"""The whole controller, in threads of this process with the faults that it broke of, or as a process of its own."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from harness.controlplane.processes import Process
from harness.controlplane.servers import ControlPlane
from rescheduler.controller.ports import LoopTimings
from rescheduler.controller.run import Controller, Options
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import NotFoundError
from rescheduler.kube.transport import Transport
from rescheduler.model.kinds import CONFIG_MAPS, RESOURCES, Kind
from rescheduler.model.names import DEFAULT_NAMESPACE, HISTORY_CONFIG_MAP

END_LIMIT_S: Final = 20.0
QUIET: Final[Mapping[str, Any]] = {
    "apiVersion": "rescheduler.dev/v1alpha1",
    "kind": "ReschedulerConfiguration",
    "interval": "1h",
    "leaderElection": {"enabled": False},
    "policies": [],
}
"""It takes up what is asked for and decides nothing itself."""


TIMINGS: Final = LoopTimings(turn_s=0.2)


@dataclass
class Running:
    """A controller at work. ``faults``: what it broke of; the context manager shows them at the end."""

    controller: Controller
    faults: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        """The thread's work."""
        try:
            self.controller.run()
        except BaseException as error:  # noqa: BLE001  shown to the test that it breaks
            self.faults.append(error)


def forget_past_moves(api: KubeApi) -> None:
    """Empty ConfigMap ``move-history``, so that what other tests moved within the hour is not counted.

    Their PodMigrations go first: a namespace takes a minute to end where many do, and what still stands there is recorded anew.
    """
    for namespace in _listed(api, RESOURCES[Kind.NAMESPACE].collection_path):
        if "deletionTimestamp" in namespace["metadata"]:
            _delete_moves(api, namespace["metadata"]["name"])
    with suppress(NotFoundError):
        api.merge_patch(CONFIG_MAPS.object_path(DEFAULT_NAMESPACE, HISTORY_CONFIG_MAP), {"data": None})


def _delete_moves(api: KubeApi, namespace: str) -> None:
    moves = RESOURCES[Kind.POD_MIGRATION]
    for move in _listed(api, moves.collection_path):
        metadata = move["metadata"]
        if metadata["namespace"] == namespace:
            with suppress(NotFoundError):
                api.delete(moves.object_path(namespace, metadata["name"]), uid=metadata["uid"])


def _listed(api: KubeApi, path: str) -> list[dict[str, Any]]:
    return [item for page in api.list(path) for item in json.loads(page)["items"]]


@contextmanager
def running(transport: Transport, *, timings: LoopTimings = TIMINGS, **changes: Any) -> Iterator[Running]:
    """A controller with the rights of ``transport``, quiet but for ``changes`` to its configuration.

    What tests before it moved does not count in its limits. Raises at the end what the controller broke of.
    """
    forget_past_moves(KubeApi(transport))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        quiet = {key: value for key, value in QUIET.items() if key != "policies" or "profiles" not in changes}
        path.write_text(yaml.safe_dump({**quiet, **changes}))
        controller = Controller(transport, Options(config_file=str(path), serve=False, timings=timings))
        work = Running(controller)
        thread = threading.Thread(target=work.run, name="controller", daemon=True)
        thread.start()
        try:
            yield work
        finally:
            controller.stop.set()
            thread.join(END_LIMIT_S)
    if work.faults:
        raise work.faults[0]


def controller_process(
    plane: ControlPlane, folder: Path, name: str, document: Mapping[str, Any], *options: str
) -> Process:
    """A controller as a process of its own, with the rights of its service account; nobody has started it yet."""
    config = folder / f"{name}.json"
    config.write_text(json.dumps(document))
    kubeconfig = plane.kubeconfig_for(DEFAULT_NAMESPACE, DEFAULT_NAMESPACE)
    program = [sys.executable, "-c", "from rescheduler.cli.entry import main; main()", "run"]
    return Process(
        name, [*program, f"--kubeconfig={kubeconfig}", f"--config={config}", *options], folder / f"{name}.log"
    )
