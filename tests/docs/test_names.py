"""Each public class of the package has a name of its own, so that a name in a message or a search means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "rescheduler"

KUBERNETES_NAMES = {
    "NodeAffinity",  # a policy, a scheduling plugin and a part of the pod spec are called so in Kubernetes too
    "NodeAffinityArgs",  # the arguments of the policy and of the scheduling plugin
    "Reservation",  # the record, and the object class of the same kind for pykube-ng
    "PodMigration",  # likewise
    "PodSpec",  # the record, and the part of it that the webhook reads
    "Requirement",  # of selectors, and of the webhook's configuration
}
"""Names that Kubernetes itself gives to each of these things."""


def public_classes():
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(PACKAGE)))
    return found


def test_no_two_public_classes_have_the_same_name():
    twice = {name: sorted(paths) for name, paths in public_classes().items() if len(paths) > 1}
    unexpected = {name: paths for name, paths in twice.items() if name not in KUBERNETES_NAMES}
    assert not unexpected
