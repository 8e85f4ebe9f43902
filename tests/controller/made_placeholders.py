"""The placeholder of a Reservation as the program makes it, for tests that put one into a snapshot."""

import json

from harness import builders as b
from rescheduler.reservations.placeholder import placeholder_manifest
from rescheduler.reservations.settings import ReservationSettings


def made_placeholder(reservation, node):
    """A builder of it, pinned to the node and not bound."""
    record = reservation.build()
    made = json.loads(placeholder_manifest(record, node, ReservationSettings()))
    pod = b.pod(made["metadata"]["name"], "rescheduler").owner("Reservation", record.name, record.uid)
    return pod.set("spec", made["spec"]).set("metadata.labels", made["metadata"]["labels"])
