"""CEL expressions that keep the API server from calling the webhook for pods that it leaves alone (pure).

Evaluated by the API server itself (``matchConditions``, on by default since 1.28): a pod that matches none
costs no call. Measured on 1.37: 2,000 uids are taken, 3,000 refused (100,000 characters).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

MOST_UIDS: Final = 2_000
MOST_CHARACTERS: Final = 100_000
"""Of one expression; the API server's own limit."""

_UID: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONTROLLED: Final = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller"


class MatchCondition(msgspec.Struct, frozen=True):
    """A named CEL expression; all of a webhook must be true."""

    name: str
    expression: str


UNBOUND: Final = MatchCondition("unbound", "!has(object.spec.nodeName) || object.spec.nodeName == ''")
NOTHING: Final = MatchCondition("nothing", "false")
ANY_CONTROLLER: Final = MatchCondition("owner", f"{_CONTROLLED})")


def match_conditions(uids: Iterable[str]) -> tuple[MatchCondition, ...]:
    """True for unbound pods of the controllers ``uids``; nothing at all if there are none.

    Beyond MOST_UIDS every pod that has a controller matches, and the webhook itself looks.
    """
    wanted = sorted(uid for uid in uids if _UID.fullmatch(uid))
    if not wanted:
        return (NOTHING,)
    listed = ",".join(f"'{uid}'" for uid in wanted)
    expression = f"{_CONTROLLED} && o.uid in [{listed}])"
    if len(wanted) > MOST_UIDS or len(expression) > MOST_CHARACTERS:
        return (UNBOUND, ANY_CONTROLLER)
    return (UNBOUND, MatchCondition("owner", expression))
