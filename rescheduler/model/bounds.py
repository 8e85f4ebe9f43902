"""The limits of what people write into Reservations, PodMigrations, ReservationWindows and HeadRooms: one table for the schemas, commands and decoders.

A test compares this table with every limit of the manifests' schemas, and with every field that has none: a limit that is missing here or
there, another number, a field that takes texts, lists or maps of any size, fails it. What the schema admits, the decoder reads: an object that is stored and cannot be read would be blind
weight. Constants only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MOST_TTL: Final = "8760h"
"""``spec.ttl`` of a Reservation; 0 is no limit."""
MOST_MOVE_TTL: Final = "168h"
"""``spec.ttl`` of a PodMigration."""
LONGEST_DURATION_TEXT: Final = 32
"""Characters of a duration."""
LONGEST_NAME: Final = 253
"""Bytes of the name of an object."""
LONGEST_LABEL: Final = 63
"""Of the value of a label, a namespace, a kind, the name of a container."""
LONGEST_KEY: Final = LONGEST_NAME + 1 + LONGEST_LABEL
"""Of the key of a label with its prefix; also of NAMESPACE/NAME."""
LONGEST_UID: Final = 128
LONGEST_REASON: Final = 1024
"""``spec.reason`` of a PodMigration."""
MOST_OWNERS: Final = 16
"""Of a Reservation, and of the labels and expressions of one selector."""
MOST_VALUES: Final = 48
"""Of one expression of a selector."""
MOST_WINDOW: Final = "168h"
"""``spec.duration`` and ``spec.startReserveAgo`` of a ReservationWindow."""
MOST_ROOMS: Final = 256
"""``spec.podNumToReserve`` of a ReservationWindow and ``spec.rooms`` of a HeadRoom."""
LONGEST_CRON: Final = 128
LONGEST_ZONE: Final = 64
"""The name of a time zone."""
TIME_OF_DAY: Final = 5
"""Characters of 04:00."""
MOST_TEMPLATE_BYTES: Final = 64 * 1024
"""Of a template, as JSON without white space. The schema leaves most of a pod open: a policy (``reservation-rules.yaml``) refuses one that is larger,
and the decoder keeps nothing of it."""
OVERSIZED_TEMPLATE: Final = b'{"oversized":true}'
"""What stands in the record for such a template."""
MOST_EARLIER_MOVES: Final = 8
"""``spec.after`` of a PodMigration."""

LENGTHS: Final[Mapping[str, int]] = {
    "apiVersion": LONGEST_NAME,
    "kind": LONGEST_LABEL,
    "namespace": LONGEST_LABEL,
    "name": LONGEST_NAME,
    "nodeName": LONGEST_NAME,
    "uid": LONGEST_UID,
    "key": LONGEST_KEY,
    "values": LONGEST_LABEL,
    "matchLabels": LONGEST_LABEL,
    "ttl": LONGEST_DURATION_TEXT,
    "reason": LONGEST_REASON,
    "policy": LONGEST_NAME,
    "after": LONGEST_KEY,
    "containers.name": LONGEST_LABEL,
    "cron": LONGEST_CRON,
    "timeZone": LONGEST_ZONE,
    "end": TIME_OF_DAY,
    "duration": LONGEST_DURATION_TEXT,
    "startReserveAgo": LONGEST_DURATION_TEXT,
    "nodeSelector": LONGEST_LABEL,
    "spreadOver": LONGEST_KEY,
}
"""Field of a spec -> the longest text in it. A field of several objects has one limit; where not, its parent is named, too."""
COUNTS: Final[Mapping[str, int]] = {
    "owners": MOST_OWNERS,
    "matchLabels": MOST_OWNERS,
    "matchExpressions": MOST_OWNERS,
    "values": MOST_VALUES,
    "after": MOST_EARLIER_MOVES,
    "nodeSelector": MOST_OWNERS,
    "resources": MOST_OWNERS,
}
"""List or map of a spec -> the most entries."""
MOST: Final[Mapping[str, int]] = {"podNumToReserve": MOST_ROOMS, "rooms": MOST_ROOMS}
"""Number of a spec -> the largest."""
LEAST: Final[Mapping[str, int]] = {
    "owners": 1,
    "containers": 1,
    "containers.name": 1,
    "key": 1,
    "podRef.name": 1,
    "target.nodeName": 1,
    "reservationRef.name": 1,
    "after": 3,
    "gracePeriodSeconds": 0,
    "cron": 9,
    "timeZone": 1,
    "resources": 1,
    "podNumToReserve": 1,
    "rooms": 0,
}
"""Field of a spec -> the shortest text, the fewest entries, or the smallest number in it."""
