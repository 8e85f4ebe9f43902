"""Pods, PodMigrations and Reservations as the caches have them.

What a test says of one is of its status (of a pod: its state) where that has such a field, else of itself.
"""

import msgspec

from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import Pod, PodState
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.selectors import LabelSet


def move(name="m", phase=MigrationPhase.PENDING, *, namespace="default", **fields):
    """The PodMigration of the pod of its name, if no other is named."""
    own = {"name": name, "namespace": namespace, "uid": name, "pod_name": name}
    return _record(PodMigration, MigrationStatus, own, {"phase": phase, **fields})


def move_of(pod, phase=MigrationPhase.PENDING, **fields):
    """The PodMigration of this pod."""
    named = {"name": "m", "namespace": pod.namespace, "pod_name": pod.name, "pod_uid": pod.uid}
    return move(phase=phase, **{**named, **fields})


def room(name="r", phase=ReservationPhase.PENDING, *, expires_at_s=None, **fields):
    """The Reservation. ``expires_at_s``: as it was asked for."""
    own = {"name": name, "uid": name, "expires_at_s": expires_at_s}
    return _record(Reservation, ReservationStatus, own, {"phase": phase, **fields})


def pod_record(**fields):
    """The Pod."""
    state = {key: fields.pop(key) for key in PodState.__struct_fields__ if key in fields}
    return Pod(**fields, state=PodState(**state))


def changed(pod, **fields):
    """The Pod with these fields instead."""
    state = {key: fields.pop(key) for key in PodState.__struct_fields__ if key in fields}
    return msgspec.structs.replace(pod, **fields).with_state(**state)


def _record(kind, status_kind, own, fields):
    """``spec``: fields of its own that its status has, too. ``status``: given as a whole. Labels and annotations may be plain dictionaries."""
    own |= {key: value for key, value in fields.items() if key not in status_kind.__struct_fields__}
    own |= own.pop("spec", {})
    own |= {key: LabelSet(own[key]) for key in ("labels", "annotations") if key in own}
    status = {key: value for key, value in fields.items() if key in status_kind.__struct_fields__}
    return kind(**{"status": status_kind(**status), **own})
