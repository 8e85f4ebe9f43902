"""Who asked for a move or a room: the user that admission noted on the object when it was created. Pure.

The name is somebody else's text: it is shown cut, on one line, and without characters that are not seen. Before Kubernetes
1.36, which has no MutatingAdmissionPolicy, and on older objects nobody is noted.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.names import ANNOTATION_REQUESTED_BY
from rescheduler.model.selectors import LabelSet
from rescheduler.visible import visible_line

UNKNOWN: Final = "a request"
LONGEST_USER: Final = 256
"""Characters of the name; ``manifests/base/requested-by.yaml`` notes no more."""


def asked_by(annotations: LabelSet) -> str:
    """``user NAME``, or ``a request`` where nobody is noted."""
    name = visible_line((annotations.get(ANNOTATION_REQUESTED_BY) or "")[:LONGEST_USER]).strip()
    return f"user {name}" if name else UNKNOWN
