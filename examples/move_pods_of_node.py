"""Moves the pods of one node elsewhere. Unlike `kubectl drain`, room is reserved for each pod before it is evicted.

    pip install '.[pykube]'
    python examples/move_pods_of_node.py NODE [--namespace NS] [--at-once 3] [--timeout 300]

The cluster needs `manifests/` and the controller. Pods of DaemonSets and pods without a controller stay. A pod whose
move fails stays where it is; its reason is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys

import pykube

from rescheduler.pykube import FailedError, PodMigration


def main() -> int:
    """Cordon the node, then move its pods, a few at a time."""
    arguments = parsed_arguments()
    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    pykube.Node.objects(api).get_by_name(arguments.node).cordon()
    pods = movable_pods(api, arguments.node, arguments.namespace or pykube.all)
    failed = 0
    for first in range(0, len(pods), arguments.at_once):
        moves = [ask_for_move(pod) for pod in pods[first : first + arguments.at_once]]
        failed += sum(not has_landed(move, arguments.timeout) for move in moves)
    print(f"{len(pods) - failed} of {len(pods)} pods were moved off {arguments.node}")
    return 1 if failed else 0


def movable_pods(api: pykube.HTTPClient, node: str, namespace: str) -> list[pykube.Pod]:
    """Pods of the node that a controller replaces elsewhere after an eviction."""
    on_node = pykube.Pod.objects(api).filter(namespace=namespace, field_selector={"spec.nodeName": node})
    return [
        pod
        for pod in on_node
        if controller_kind(pod) not in ("", "DaemonSet", "Node") and "deletionTimestamp" not in pod.metadata
    ]


def controller_kind(pod: pykube.Pod) -> str:
    """Kind of the pod's controller, "" without one."""
    references = pod.metadata.get("ownerReferences", [])
    return next((each["kind"] for each in references if each.get("controller")), "")


def ask_for_move(pod: pykube.Pod) -> PodMigration:
    """Creates the PodMigration of a pod; the controller chooses the target by the scheduler's rules."""
    move = PodMigration.of_pod(pod, reason="examples/move_pods_of_node.py")
    move.create()
    return move


def has_landed(move: PodMigration, timeout_s: float) -> bool:
    """Waits for the end of a move and prints it."""
    pod = f"{move.namespace}/{move.obj['spec']['podRef']['name']}"
    try:
        move.wait_until_landed(timeout_s=timeout_s)
    except (FailedError, TimeoutError) as error:
        print(f"{pod}: {error}", file=sys.stderr)
        return False
    print(f"{pod}: {move.source} -> {move.node} as {move.replacement}", flush=True)
    return True


def parsed_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("node")
    parser.add_argument("--namespace", default="", help="only pods of this namespace")
    parser.add_argument("--at-once", type=int, default=3, help="moves under way at the same time")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds to wait for each move")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
