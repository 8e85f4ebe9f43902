"""Scales a Deployment up after room is held for every new pod; if room for one is missing, nothing is scaled.

    pip install '.[pykube]'
    python examples/reserve_then_scale.py NAME --namespace NS --replicas 10 [--timeout 120]

`rescheduler scale` does the same and checks more; this script shows how the objects are used.
"""

from __future__ import annotations

import argparse
import sys

import pykube

from rescheduler.pykube import FailedError, Reservation


def main() -> int:
    """Reserve, wait, scale, and show where the pods landed."""
    arguments = parsed_arguments()
    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    workload = pykube.Deployment.objects(api, namespace=arguments.namespace).get_by_name(arguments.name)
    missing = arguments.replicas - workload.replicas
    if missing <= 0:
        print(f"{workload.name} has {workload.replicas} replicas already", file=sys.stderr)
        return 2
    reservations = reserve(workload, missing)
    try:
        for reservation in reservations:
            reservation.wait_until_available(timeout_s=arguments.timeout)
    except (FailedError, TimeoutError) as error:
        for reservation in reservations:
            reservation.delete()
        print(f"nothing was scaled: {error}", file=sys.stderr)
        return 1
    workload.patch({"spec": {"replicas": arguments.replicas}})
    landed = [has_landed(reservation, arguments.timeout) for reservation in reservations]
    return 0 if all(landed) else 1


def reserve(workload: pykube.Deployment, count: int) -> list[Reservation]:
    """One Reservation for each new pod."""
    first = workload.replicas + 1
    reservations = [
        Reservation.for_workload(workload, f"{workload.namespace}-{workload.name}-{number}", ttl="10m")
        for number in range(first, first + count)
    ]
    for reservation in reservations:
        reservation.create()
    return reservations


def has_landed(reservation: Reservation, timeout_s: float) -> bool:
    """Waits until a pod uses the Reservation and prints which one."""
    try:
        reservation.wait_until_used(timeout_s=timeout_s)
    except (FailedError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return False
    print(f"{', '.join(reservation.pods)} landed on {reservation.node}", flush=True)
    return True


def parsed_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds to wait for each Reservation and pod"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
