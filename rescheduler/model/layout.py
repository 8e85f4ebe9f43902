"""The number of the layout in which this version stores its objects: the one place that names it. Constants and one check.

It is ``status.layout`` of Reservations, PodMigrations, ReservationWindows and HeadRooms. Absent: written by 0.1.0 or before. An
absent mark means what the version meant that did not write it. The number rises only where an older version would do harm
with what a newer one has stored; fields that an older one may ignore do not raise it (docs/upgrading.md).
"""

from __future__ import annotations

from typing import Final

LAYOUT: Final = 1
LAYOUT_FIELD: Final = "status.layout"


def check_layout(stored: int | None) -> None:
    """Raise ValueError for a layout that this version does not know: then no step is taken for the object."""
    if stored is not None and stored > LAYOUT:
        raise ValueError(
            f"{stored} is of a newer version of rescheduler, and this one knows {LAYOUT}: it is left alone; go on with the newer version"
        )
