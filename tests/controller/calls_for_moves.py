"""What the actions of moves stand for: PodMigrations, evictions, and replacements of mode StartFirst."""

from objects_of_calls import NO_BODY, POD, PODS, REPLICA_SET, TESTED_BELOW, WEB

from rescheduler.calls.call import GateProbe
from rescheduler.calls.objects import adopt_pod, delete_migration, write_status
from rescheduler.calls.pods import (
    evict,
    evict_by_request,
    label_replacement,
    measure_watch,
    remove_replacement,
    withdraw_eviction_request,
)
from rescheduler.migrations.creations import start_replacement, try_creation
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.selectors import LabelSet

MOVE = ObjectKey("shop", "move-1")
START = start_replacement(
    ObjectKey("shop", "web-new"), REPLICA_SET, MOVE, node="n1", labels={"app": "web"}, replaces="rs-uid/u"
)
SEEN = PodMigration(namespace="shop", name="move-1", uid="m", resource_version="8", pod_name="web-0")
MOVES = "/apis/rescheduler.dev/v1alpha1/namespaces/shop/podmigrations"

CALLS_FOR_MOVES = [
    # PodMigrations
    (
        adopt_pod(SEEN, "u"),
        f"PATCH(merge) {MOVES}/move-1",
        {"metadata": {"uid": "m", "resourceVersion": "8"}, "spec": {"podRef": {"uid": "u"}}},
    ),
    (
        write_status(SEEN, MigrationStatus(phase=MigrationPhase.EVICTING)),
        f"PUT {MOVES}/move-1/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"namespace": "shop", "name": "move-1", "uid": "m", "resourceVersion": "8"},
            "status": {
                "phase": "Evicting",
                "layout": 1,
                "observedGeneration": 0,
                "mode": "ReserveFirst",
            },
        },
    ),
    (delete_migration(SEEN), f"DELETE {MOVES}/move-1 uid=m", NO_BODY),
    # Evictions
    (
        GateProbe(REPLICA_SET, "shop"),
        "POST pods?dryRun=All owner=ReplicaSet/web uid=rs-uid for namespace shop, until it has the scheduling gate",
        NO_BODY,
    ),
    (
        try_creation(POD, REPLICA_SET, TemplateKey("rs-uid")),
        (
            "GET /apis/apps/v1/namespaces/shop/replicasets/web, then POST pods?dryRun=All from its template "
            "if its uid is rs-uid"
        ),
        NO_BODY,
    ),
    (evict(WEB, dry_run=True), f"EVICT {PODS}/eviction?dryRun=All uid=u", NO_BODY),
    (evict(WEB), f"EVICT {PODS}/eviction uid=u", NO_BODY),
    (evict_by_request(WEB, SEEN), f"EVICT(request) {PODS}/eviction uid=u", NO_BODY),
    (withdraw_eviction_request(WEB, SEEN), f"DELETE(request) {PODS}/eviction uid=u", NO_BODY),
    (evict(WEB, 5), f"EVICT {PODS}/eviction uid=u gracePeriodSeconds=5", NO_BODY),
    # Replacements of mode StartFirst
    (
        START,
        (
            "GET /apis/apps/v1/namespaces/shop/replicasets/web, then POST its template as pod web-new on node/n1 "
            "if its uid is rs-uid"
        ),
        TESTED_BELOW,
    ),
    (
        label_replacement(WEB, LabelSet({"pod-template-hash": "1"})),
        f"PATCH(merge) {PODS}",
        {"metadata": {"uid": "u", "labels": {"pod-template-hash": "1"}}},
    ),
    (
        measure_watch(WEB, 5.25),
        f"PATCH(merge) {PODS}",
        {"metadata": {"uid": "u", "annotations": {"rescheduler.dev/seen-at": "5.250"}}},
    ),
    (remove_replacement(WEB), f"DELETE {PODS} uid=u", NO_BODY),
]
