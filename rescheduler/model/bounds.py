"""The limits of what people write into Reservations, PodMigrations, ReservationWindows and HeadRooms, as commands and decoders need them.

``tests/model/test_bounds.py`` has the table of all of them and compares it with the manifests' schemas. What the schema admits, the
decoder reads: an object that is stored and cannot be read would be blind weight. Constants only.
"""

from __future__ import annotations

from typing import Final

MOST_TTL: Final = "8760h"
"""``spec.ttl`` of a Reservation; 0 is no limit."""
MOST_MOVE_TTL: Final = "168h"
"""``spec.ttl`` and ``spec.hint`` of a PodMigration."""
LONGEST_NAME: Final = 253
"""Bytes of the name of an object."""
LONGEST_LABEL: Final = 63
"""Of the value of a label, a namespace, a kind, the name of a container."""
MOST_WINDOW: Final = "168h"
"""``spec.duration`` and ``spec.startReserveAgo`` of a ReservationWindow."""
MOST_ROOMS: Final = 256
"""``spec.podNumToReserve`` of a ReservationWindow and ``spec.rooms`` of a HeadRoom."""
LONGEST_CRON: Final = 128
LONGEST_ZONE: Final = 64
"""The name of a time zone."""
MOST_TEMPLATE_BYTES: Final = 64 * 1024
"""Of a template, as JSON without white space. The schema leaves most of a pod open: a policy (``reservation-rules.yaml``) refuses one that is larger,
and the decoder keeps nothing of it."""
OVERSIZED_TEMPLATE: Final = b'{"oversized":true}'
"""What stands in the record for such a template."""
MOST_EARLIER_MOVES: Final = 8
"""``spec.after`` of a PodMigration."""
