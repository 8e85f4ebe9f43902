"""The term that admission adds to pods so that kube-scheduler takes other nodes than those that their controller's pods left.

It stays in the pod for good, while the hint on the node ends: it steers one placement and is nobody's wish. What asks what
the owner of a pod wishes leaves it out. Pure.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.names import HOSTNAME
from rescheduler.model.records import PreferredNodeTerm
from rescheduler.model.selectors import Operator

HINT_WEIGHT: Final = 100
"""The highest that Kubernetes has for one term."""
HINT_COPIES: Final = 3
"""How often the term is added: kube-scheduler sums the weights (NodeAffinity), so a hint outweighs two wishes of the owner of
weight 100 (R57)."""


def is_avoid_hint(term: PreferredNodeTerm) -> bool:
    """True for each copy of a term of the form that admission adds: weight 100, ``kubernetes.io/hostname NotIn (...)``, nothing else."""
    if term.weight != HINT_WEIGHT or term.term.fields or len(term.term.expressions) != 1:
        return False
    only = term.term.expressions[0]
    return only.key == HOSTNAME and only.operator is Operator.NOT_IN
