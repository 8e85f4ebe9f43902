"""Names in the API: group, annotations, labels, scheduling gates, taints, objects. Constants only.

Manifests, controller and tests use the same constants; a test compares them with the manifests.
"""

from typing import Final

GROUP: Final = "rescheduler.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GATE: Final = "rescheduler.dev/hold"
"""Scheduling gate that holds a replacement until its room is handed over."""

GATE_ROOM: Final = "rescheduler.dev/wait-for-room"
"""Scheduling gate of a placeholder whose room is preallocated and not free yet."""

GATE_CONFIG_MAP: Final = "gate-keys"
"""ConfigMap in the controller's namespace: which pods are held -> Reservation name; parameter of the gate policy."""

AVOID_CONFIG_MAP: Final = "avoid-nodes"
"""ConfigMap in the controller's namespace: controller uid -> node names to avoid; parameter of the hint policy."""

HISTORY_CONFIG_MAP: Final = "move-history"
"""ConfigMap in the controller's namespace: uid of a PodMigration -> what limits, cool-down and back-off count of it."""

ANNOTATION_CONFIGURATION: Final = "rescheduler.dev/configuration"
"""On the Lease: the version of the configuration that the leader goes by, and where it is from."""

ANNOTATION_VALID_UNTIL: Final = "rescheduler.dev/valid-until"
"""On ConfigMap ``gate-keys``: RFC 3339, by the API server's time. Without it, or later, no key holds any pod."""

ANNOTATION_SEEN: Final = "rescheduler.dev/seen-at"
"""On a placeholder: when the controller last measured how far its watch of pods is behind."""
ANNOTATION_RESERVATION: Final = "rescheduler.dev/reservation"
"""On a pod: the Reservation that it was gated for, and later the one that it took."""

ANNOTATION_MIGRATION: Final = "rescheduler.dev/migration"
"""On a Reservation: NAMESPACE/NAME of the PodMigration that it serves; claims wait for its eviction."""

ANNOTATION_MIGRATION_UID: Final = "rescheduler.dev/migration-uid"
"""On a Reservation: uid of that PodMigration. Admission lets nobody but the controller write these two."""

ANNOTATION_PENDING_POD: Final = "rescheduler.dev/pending-pod"
"""On a Reservation: NAMESPACE/NAME of the pending pod that others step aside for. Written by the controller only."""

ANNOTATION_PENDING_POD_MOVES: Final = "rescheduler.dev/pending-pod-moves"
"""On such a Reservation: how many pods are moved for it. Written by the controller only."""

ANNOTATION_MAKES_ROOM: Final = "rescheduler.dev/makes-room"
"""On a PodMigration: the Reservation that its pod steps aside for. It means something in planned moves only."""

ANNOTATION_REQUESTED_BY: Final = "rescheduler.dev/requested-by"
"""On a PodMigration or Reservation: the user who created it. Admission writes it, and lets nobody write another one."""

ANNOTATION_ASKED_SINCE: Final = "rescheduler.dev/asked-since"
"""On a PodMigration of the guard: since when somebody asks for the eviction, as RFC 3339. A later time than the object's own counts for nothing."""

LABEL_GUARD: Final = "rescheduler.dev/guard-evictions"
"""On a Namespace, "enabled": evictions that others ask for wait until there is room for the replacement."""

GUARD: Final = "Guard"
"""spec.policy of the PodMigrations that the guard makes."""
RESPONDER: Final = "rescheduler.dev/room-first"
"""Responder of EvictionRequests: spec.evictionResponders of pods names it."""
REQUESTER_OF_MOVES: Final = "rescheduler.dev/moves"
"""Requester of the EvictionRequests that the controller files for its own moves."""
EVICTOR: Final = "imperative-eviction.k8s.io/evictor"
"""The last responder of every Eviction: it calls the eviction API."""
LIFECYCLE: Final = "lifecycle.k8s.io"
"""API group of EvictionRequests."""

MOVE_SUFFIX: Final = ".move"
"""The end of the names of Reservations that were made for moves."""

LABEL_ROOM_OF: Final = "rescheduler.dev/room-of"
"""On a Reservation: uid of the ReservationWindow or HeadRoom that it was made for. Only the controller writes it."""

ANNOTATION_RECIPE: Final = "rescheduler.dev/room-recipe"
"""On such a Reservation: what it was made from; one that was made from something else is replaced."""

ROOM_SUFFIX: Final = ".room"
"""The end of the names of such Reservations."""

PENDING_SUFFIX: Final = ".pending"
"""The end of the names of those for pending pods that others step aside for."""


ANNOTATION_MODE: Final = "rescheduler.dev/mode"
"""On a Reservation: "Soft" if its placeholder yields to its owner; there is no gate then.

On a Deployment or ReplicaSet: "StartFirst" declares that its pods may be moved so; any other mode forbids it.
"""

ANNOTATION_REPLACES: Final = "rescheduler.dev/replaces"
"""On a replacement of mode StartFirst: uid of its ReplicaSet, "/", uid of the pod that it takes the place of."""

LABEL_START_FIRST: Final = "rescheduler.dev/start-first"
"""On a replacement of mode StartFirst: uid of its PodMigration; keeps selectors of other pods off it."""

ANNOTATION_PART: Final = "rescheduler.dev/part"
"""On a placeholder of a part of a room: the requests that were asked for, as a JSON object."""

ANNOTATION_ORDER: Final = "rescheduler.dev/order"
"""On a Reservation: integer; of several Reservations that fit a pod the one with the smallest order is taken (K68)."""

ANNOTATION_AVOID: Final = "rescheduler.dev/prefer-avoid-pods"
"""On a Node: bounded JSON list of PreferAvoidPods entries (R53-R58)."""

ANNOTATION_KEPT_EMPTY: Final = "rescheduler.dev/kept-empty"
"""On a Node: the controller has cordoned or tainted it after it was emptied, and until when (``model.kept_empty``)."""

TAINT_KEPT_EMPTY: Final = "rescheduler.dev/kept-empty"
"""Taint of a node that the controller has emptied, without a value, with the effect NoSchedule."""

LABEL_CONSOLIDATION: Final = "rescheduler.dev/consolidation"
"""On a Node that ``rescheduler consolidate`` has cordoned: "Emptying" until no pod that counts is left, then "Emptied"."""

ANNOTATION_COOLDOWN: Final = "rescheduler.dev/workload-cooldown"
"""On the topmost controller of pods: the least time between two planned moves of its pods, such as 6h."""

ANNOTATION_EVICT: Final = "rescheduler.dev/evict"
"""On a pod: "true" lifts protections that are a matter of taste, "false" forbids every move.

On a PodMigration that people created: "true" lifts them for its pod while the pod's node is cordoned.
"""

ANNOTATION_HANDOVER_TAINT: Final = "rescheduler.dev/hand-over"
"""Taint key on the target while pods of higher priority wait (value: Reservation name)."""

TAINT_UNREADABLE: Final = "rescheduler.dev/unreadable"
"""Taint key, in memory only, of a node that cannot be read in full: no pod is sent there."""

KOORDINATOR_API_VERSION: Final = "scheduling.koordinator.sh/v1alpha1"
KOORDINATOR_SCHEDULER: Final = "koord-scheduler"
"""schedulerName of the pods that Koordinator's scheduler places."""

KOORDINATOR_AFFINITY: Final = "scheduling.koordinator.sh/reservation-affinity"
"""On a pod: the one Koordinator Reservation, by name, that it must use."""

KOORDINATOR_ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
"""On a pod: name and uid of the Koordinator Reservation that it got; written by Koordinator's scheduler."""

DESCHEDULER_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
DESCHEDULER_PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""On a pod: "false" forbids evictions; with "true" its local data may be lost."""
SAFE_LOCAL_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""On a pod: names of its local volumes that may be lost, with commas between them."""
KUBE_SYSTEM: Final = "kube-system"
"""Namespace of the cluster's own programs: nobody else makes objects there."""
DELETION_CANDIDATE: Final = "DeletionCandidateOfClusterAutoscaler"
"""cluster-autoscaler's taint (PreferNoSchedule) of nodes that it does not need; the value is the time in epoch seconds."""
LEAVING_TAINTS: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        DELETION_CANDIDATE,
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
    }
)
"""Taints of nodes that cluster-autoscaler or Karpenter (the last one before its version 1) is about to delete."""
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On a node, "true": cluster-autoscaler does not remove it."""
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

RESERVEABLE: Final = "volcano.sh/reserveable"
"""Annotation or label of a pod, "true": it is for the room of ReservationWindows that name no owners."""
MAXIMUM_RUNTIME: Final = "volcano.sh/maximum-runtime"
"""On a pod, or the Volcano PodGroup of pods: how long each runs at most, as a duration."""
POD_GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""On a pod: name of its Volcano PodGroup; the first that is there counts."""

POD_GROUP_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "volcano.sh/job-name",
)
"""Labels of pods with the name of their group: of scheduler-plugins, of its first versions and Koordinator, and a Job of Volcano."""
POD_GROUP_ANNOTATIONS: Final = (*POD_GROUP_NAMES, "gang.scheduling.koordinator.sh/name")
"""Annotations of pods with the name of their group, of Volcano or Koordinator."""

POD_GROUP_LEAST_LABELS: Final = ("pod-group.scheduling.sigs.k8s.io/min-available",)
"""Labels of pods with the number of their group that must run together: of the first versions of scheduler-plugins and Koordinator."""
POD_GROUP_LEAST_ANNOTATIONS: Final = (
    "gang.scheduling.koordinator.sh/min-available",
    "scheduling.volcano.sh/group-min-member",
)
"""The same as annotations, of Koordinator and Volcano."""

KEPT_POD_ANNOTATIONS: Final = frozenset(
    {
        ANNOTATION_RESERVATION,
        ANNOTATION_REPLACES,
        ANNOTATION_EVICT,
        ANNOTATION_PART,
        DESCHEDULER_EVICT,
        DESCHEDULER_PREFER_NO_EVICTION,
        SAFE_TO_EVICT,
        SAFE_LOCAL_VOLUMES,
        DO_NOT_DISRUPT,
        POD_DELETION_COST,
        MAXIMUM_RUNTIME,
        *POD_GROUP_ANNOTATIONS,
        *POD_GROUP_LEAST_ANNOTATIONS,
        KOORDINATOR_AFFINITY,
        KOORDINATOR_ALLOCATED,
        "kubernetes.io/config.mirror",
    }
)
"""Annotations that a Pod record keeps; all others are dropped while decoding."""

LABEL_PLACEHOLDER: Final = "rescheduler.dev/placeholder"
"""On a placeholder pod: name of its Reservation (cut to 63 characters with a digest)."""

SCHEDULER_PROBE: Final = "Scheduler_probe"
"""The same on a pod that holds nothing and asks a scheduler whether it is up to date; no Reservation is named so."""
NODE_REQUEST: Final = "Node_request"
"""The same on a pod that holds nothing, is never bound, and asks the node autoscaler for a node."""
ASKS: Final = frozenset({SCHEDULER_PROBE, NODE_REQUEST})
"""The values of pods that hold nothing."""
NODE_REQUEST_SCHEDULER: Final = "rescheduler.dev-node-request"
"""``schedulerName`` of such a pod; nobody serves it."""

LABEL_GATE_PROBE: Final = "rescheduler.dev/gate-probe"
"""On a pod that is created in a dry run in the controller's own namespace: the namespace whose gate it proves."""

LABEL_WORKLOAD_UID: Final = "rescheduler.dev/workload-uid"
"""On a PodMigration: uid of the topmost controller of its pod; by it a moved workload rests."""

LABEL_GROUP: Final = "rescheduler.dev/group"
"""On Reservations that one command made together: a random word."""

LABEL_CREATED_BY: Final = "app.kubernetes.io/created-by"
CREATED_BY: Final = "rescheduler"

PRIORITY_CLASS: Final = "rescheduler-placeholder"
"""PriorityClass of placeholders: high, preemptionPolicy Never."""

PRIORITY_CLASS_SOFT: Final = "rescheduler-placeholder-soft"
"""PriorityClass of placeholders in soft mode: below every workload."""

NAMESPACE_SYNTAX: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label, which the name of a namespace is."""

DEFAULT_NAMESPACE: Final = "rescheduler"
CONTROLLER_USER: Final = "system:serviceaccount:rescheduler:rescheduler"
"""The controller's user name; admission policies narrow what it may write."""
LEASE_NAME: Final = "rescheduler"
CONFIG_MAP: Final = "rescheduler"
CONFIG_KEY: Final = "config.yaml"
CONTROLLER_NAME: Final = "rescheduler.dev/controller"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
MIRROR_POD: Final = "kubernetes.io/config.mirror"

UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
"""Set by Kubernetes' node lifecycle controller."""
OF_GARBAGE_COLLECTION: Final = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers of a deletion that is asked for with ``--cascade``; Kubernetes takes them off."""
