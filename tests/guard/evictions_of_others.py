"""What tests of somebody else's evictions do: a controller that serves the guard, drains, bare calls, and what became of them."""

import subprocess
import time
from contextlib import contextmanager

from harness.controlplane.controllers import running
from harness.controlplane.processes import free_port
from rescheduler.guard.filer import PASS_S
from rescheduler.model.names import GUARD, LABEL_GUARD

OWN = "rescheduler"
MOVES = "rescheduler.dev/v1alpha1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/rescheduler.dev"
DRAINED = 0


@contextmanager
def guarding(plane, world, *, sections=None, **guard):
    """A controller with the rights of the manifests that serves the guard; the API server asks it. ``sections``: others of its configuration."""
    port = free_port()
    transport = plane.account().transport
    gate = {"port": port, "url": f"https://127.0.0.1:{port}"}
    with running(transport, gate=gate, guard=guard or {}, **(sections or {})) as work:
        opt_in(world)
        probe = world.pod("probe", gates=("test/never",))
        answered = work.controller._metrics.guard_answers.labels("DryRun")._value

        def reached():
            assert not work.faults, work.faults
            world.evict(probe, dryRun="All")
            loop = work.controller.loop
            return answered.get() and loop is not None and loop.ready().ok

        world.wait(reached, 60)
        world.delete_pod(probe).expect()
        world.wait_gone(probe)
        time.sleep(2 * PASS_S)  # the guard has looked whether its caches are complete
        yield work


def opt_in(world, value="enabled"):
    world.api.patch(
        f"/api/v1/namespaces/{world.namespace}", {"metadata": {"labels": {LABEL_GUARD: value}}}
    ).expect()


def drain(plane, node, *more, timeout="60s"):
    line = [plane.kubectl, f"--kubeconfig={plane.kubeconfig}", "drain", node, "--ignore-daemonsets"]
    return subprocess.run(
        [*line, f"--timeout={timeout}", *more], capture_output=True, text=True, timeout=200, check=False
    )


def guarded_moves(world):
    return [move for move in world.moves() if move["spec"].get("policy") == GUARD]


def asked(world, pod, seconds=60.0):
    """Asks until the answer is not the guard's 429 any more; gives all answers."""
    answers, deadline = [], time.monotonic() + seconds
    while time.monotonic() < deadline:
        answers.append(world.evict(pod))
        if answers[-1].status != 429:
            return answers
        time.sleep(0.5)
    raise AssertionError([answer.body["message"] for answer in answers[-3:]])


def placed(world, replicas=2, **more):
    """A workload on ``source``, and ``target`` with room for all of it."""
    source = world.node("source", cpu=str(replicas))
    pods = world.running("Deployment", "web", replicas, **more)
    return source, pods, world.node("target", cpu=str(replicas))
