"""The objects that the examples of actions are about, and the paths of their calls."""

import msgspec

from rescheduler.model.kinds import Kind
from rescheduler.model.records import OwnerRef
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.testing import builders as b

SETTINGS = ReservationSettings(namespace="rescheduler", pause_image="pause:1")
WEB = msgspec.structs.replace(b.pod("web-0", "shop").uid("u").build(), resource_version="7")
REPLICA_SET = OwnerRef("apps/v1", "ReplicaSet", "web", "rs-uid")
POD = b.pod("web-0", "shop").cpu("1").owner("ReplicaSet", "web", "rs-uid").build()
PODS = "/api/v1/namespaces/shop/pods/web-0"
GROUP = "/apis/rescheduler.dev/v1alpha1"
ROOMS = f"{GROUP}/reservations"
NO_BODY = None
TESTED_BELOW = ...
"""The body has a test of its own in ``test_call_table``."""


def reservation():
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"template": template, "owners": [{"controller": {"kind": "ReplicaSet", "name": "web"}}]}
    return b.object_of(Kind.RESERVATION, "room", spec=spec).build()


ROOM = msgspec.structs.replace(reservation(), uid="r", resource_version="7")
