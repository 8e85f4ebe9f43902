"""RemovePodsViolatingInterPodAntiAffinity: who goes from a domain that it may not share. descheduler evicts every pod whose own
term is broken; here the fewest pods go that repair it, whichever side has the term.
"""

from tests.conversion.tables import CRITICAL, Row, changed, small, workload

PLUGIN = "RemovePodsViolatingInterPodAntiAffinity"
N1 = small("n1").label(region="main")
SPARE = small("spare").label(region="other")


def shy(name, priority=0, on="n1", **labels):
    """Keeps apart from foo=bar."""
    return workload(
        name, [on], lambda s: s.apart("region", foo="bar").priority(priority).template_label(labels)
    )


def disliked(name="disliked", on="n1", priority=0, **more):
    return workload(name, [on], lambda s: s.template_label(foo="bar", **more).priority(priority))


def wary(name, priority):
    """foo=bar itself, and keeps apart from foo1=bar1."""
    return workload(
        name, ["n1"], lambda s: s.apart("region", foo1="bar1").template_label(foo="bar").priority(priority)
    )


BOUND = workload("bound", ["n1"], lambda s: s.template_label(foo="bar").node_selector({"region": "main"}))
FOUR = [shy("a"), disliked(), shy("b"), shy("c")]
ROWS = [
    Row("one that three keep apart from goes, not the three", [N1, SPARE], FOUR, {"disliked-0"}),
    Row("the same below a limit of the node", [N1, SPARE], FOUR, 1, top="maxNoOfPodsToEvictPerNode: 3", limited=True),
    Row("the same below a limit of the namespace", [N1, SPARE], FOUR, 1, top="maxNoOfPodsToEvictPerNamespace: 3", limited=True),
    Row("one at most in all", [N1, SPARE], [shy("a"), shy("b", foo="bar")], 1, top="maxNoOfPodsToEvictTotal: 1", limited=True),
    Row("the lowest priority goes", [N1, SPARE], [wary("p5", 100), wary("p6", 50), shy("p7", 0, foo1="bar1")], {"p7-0"}),
    Row("who conflicts with a pod of system priority goes", [N1, SPARE], [shy("a"), disliked(priority=CRITICAL)], {"a-0"}),
    Row("other nodes do not meet the selector", [N1, small("n2").label(dc="east", region="other")],
        [workload("west", ["n1"], lambda s: s.apart("region", foo="bar").node_selector({"dc": "west"})),
         disliked(priority=CRITICAL)], 0),
    Row("other nodes are cordoned", [N1, small("n3").cordoned()], [shy("a"), disliked(priority=CRITICAL)], 0),
    Row("all are terminating", [N1, SPARE],
        [changed(shy(name), lambda pod: pod.deleting()) for name in "ab"], 0),
    Row("other nodes are too small", [N1, small("n4", 2, 2, 1).label(region="other")], FOUR, 0),
    Row("a domain of two nodes is shared as well", [N1, small("n5", 200).label(region="main"), SPARE],
        [shy("a"), disliked(on="n5")], 1),
    Row("who is disliked is bound to its node: the others go", [N1, SPARE], [shy("a"), shy("b"), BOUND], {"a-0", "b-0"}),
    Row("as many go as can, if not all can", [N1, SPARE],
        [shy("a"), shy("b"), shy("c", priority=CRITICAL), disliked(priority=CRITICAL)], {"a-0", "b-0"}),
    Row("only of included namespaces", [N1, SPARE], [shy("a"), disliked()], 0, "{namespaces: {include: [other]}}"),
    Row("only pods that are selected", [N1, SPARE], FOUR, {"a-0"}, "{labelSelector: {matchLabels: {app: a}}}"),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
