"""The limits of what people write into Reservations and PodMigrations: one table for the schemas, admission and the decoder.

A test compares the manifests with it. What the schema admits, the decoder reads: an object that is stored and cannot be
read would be blind weight. Constants only.
"""

from __future__ import annotations

from typing import Final

MOST_TTL: Final = "8760h"
"""``spec.ttl`` of a Reservation; 0 is no limit."""
MOST_MOVE_TTL: Final = "168h"
"""``spec.ttl`` of a PodMigration."""
LONGEST_DURATION_TEXT: Final = 32
"""Characters of a duration."""
LONGEST_NAME: Final = 253
"""Bytes of the name of an object."""
MOST_EARLIER_MOVES: Final = 8
"""Entries of ``spec.after`` of a PodMigration."""
LONGEST_MOVE_KEY: Final = 63 + 1 + LONGEST_NAME
"""Bytes of an entry: namespace, slash, name."""
