"""KubeSchedulerConfiguration documents: what they change, and how bad ones are refused."""

import pytest

from harness.differential.named_configurations import REFUSED
from rescheduler.scheduling.configuration import SchedulerConfigurationError, parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile, ScoringStrategy


def document(**profile):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile] if profile else None,
    }


def with_args(plugin, **args):
    return document(pluginConfig=[{"name": plugin, "args": args}])


def test_no_profile_is_the_default():
    assert parse_scheduler_configuration(document()) == Profile()


def test_weights_and_switches():
    profile = parse_scheduler_configuration(document(plugins={
        "multiPoint": {"disabled": [{"name": "NodePorts"}]},
        "score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeAffinity", "weight": 9}]},
    }))  # fmt: skip
    weights = dict(profile.weights)
    assert weights["NodeAffinity"] == 9
    assert weights["TaintToleration"] == 3
    assert "ImageLocality" not in weights
    assert profile.disabled == {"NodePorts"}


def test_star_disables_all_but_the_named():
    profile = parse_scheduler_configuration(
        document(plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}})
    )
    assert profile.weights == (("ImageLocality", 1),)


def test_scoring_strategy():
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    profile = parse_scheduler_configuration(with_args("NodeResourcesFit", scoringStrategy={
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu"}],
        "requestedToCapacityRatio": {"shape": shape},
    }))  # fmt: skip
    assert profile.fit_strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
    assert [tuple(item) for item in profile.fit_resources] == [("example.com/gpu", 5), ("cpu", 1)]
    assert [tuple(point) for point in profile.fit_shape] == [(0, 0), (100, 10)]


def test_the_profile_of_the_default_scheduler_is_chosen():
    both = document(schedulerName="other") | {}
    both["profiles"].append({"schedulerName": "default-scheduler"})
    assert parse_scheduler_configuration(both).scheduler_name == "default-scheduler"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (5, "not a KubeSchedulerConfiguration"),
        ({}, "apiVersion"),
        (document() | {"kind": "Other"}, "found"),
        (document() | {"surprise": 1}, "surprise"),
        (document() | {"extenders": [{}]}, "extenders"),
        (
            document(plugins={"score": {"enabled": [{"name": "Mine"}]}}),
            "plugins.score: unknown plugin 'Mine'",
        ),
        (
            document(plugins={"score": {"enabled": [{"name": "NodeAffinity", "weight": 2**31}]}}),
            "weight 2147483648",
        ),
        (
            document(plugins={"filter": {"disabled": [{"name": "NodePorts"}]}}),
            "preFilter differ for NodePorts",
        ),
        (with_args("Mine"), "unknown plugin 'Mine'"),
        (with_args("NodeResourcesFit", scoringStrategy={"type": "Best"}), "'Best' is not one of"),
        (
            with_args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            "shape needs points",
        ),
        (with_args("InterPodAffinity", hardPodAffinityWeight=101), "hardPodAffinityWeight 101"),
        (with_args("InterPodAffinity", hardPodAffinityWeight="x"), "hardPodAffinityWeight"),
        (with_args("PodTopologySpread", defaultingType="Sometimes"), "Sometimes"),
        (
            with_args("PodTopologySpread", defaultConstraints=[{"maxSkew": 1, "topologyKey": "z"}]),
            "defaultingType List",
        ),
        (
            with_args(
                "NodeAffinity",
                addedAffinity={
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                    }
                },
            ),
            "Near",
        ),
    ],
)
def test_bad_documents_are_refused_with_their_place(bad, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        parse_scheduler_configuration(bad)


@pytest.mark.parametrize("name", REFUSED)
def test_what_kube_scheduler_refuses_is_refused_with_its_place(name):
    with pytest.raises(
        SchedulerConfigurationError, match=r"^(\w+ is|\w+\.\w+ is|profiles|plugins|pluginConfig|not a Kube)"
    ):
        parse_scheduler_configuration(REFUSED[name])


def queue(*, enabled=(), disabled=(), name="default-scheduler"):
    chosen = {"enabled": [{"name": n} for n in enabled], "disabled": [{"name": n} for n in disabled]}
    return {"schedulerName": name, "plugins": {"queueSort": chosen}}


def profiles(*given):
    return document() | {"profiles": list(given)}


ELECTION = {"leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s", "resourceLock": "leases"}


@pytest.mark.parametrize(("bad", "words", "path"), [
    (document() | {"parallelism": 0}, "parallelism is 0 (use 1 or more", ("parallelism",)),
    (document() | {"parallelism": "x"}, "parallelism", ("parallelism",)),
    (document() | {"percentageOfNodesToScore": 101}, "is 101", ("percentageOfNodesToScore",)),
    (document(percentageOfNodesToScore=-1), "profiles[0].percentageOfNodesToScore is -1", ("profiles", 0, "percentageOfNodesToScore")),
    (document() | {"podInitialBackoffSeconds": 0}, "is 0", ("podInitialBackoffSeconds",)),
    (document() | {"podInitialBackoffSeconds": 11}, "less than", ("podMaxBackoffSeconds",)),
    (document() | {"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4}, "is 4, less than podInitialBackoffSeconds (5)", ("podMaxBackoffSeconds",)),
    (document() | {"leaderElection": {**ELECTION, "renewDeadline": "15s"}}, "no longer than renewDeadline", ("leaderElection", "leaseDuration")),
    (document() | {"leaderElection": {**ELECTION, "resourceLock": "endpoints"}}, "'endpoints'", ("leaderElection", "resourceLock")),
    (document() | {"leaderElection": {**ELECTION, "retryPeriod": "soon"}}, "soon", ("leaderElection", "retryPeriod")),
    (document() | {"clientConnection": {"burst": -1}}, "is -1", ("clientConnection", "burst")),
    (profiles({"schedulerName": "a"}, {}), "profiles[1].schedulerName is missing", ("profiles", 1, "schedulerName")),
    (profiles(queue(enabled=["PrioritySort", "NodeName"])), "several plugins", ("profiles", 0, "plugins", "queueSort", "enabled")),
    (profiles(queue(enabled=["NodeName"])), "NodeName does not sort the queue", ("profiles", 0, "plugins", "queueSort", "enabled")),
    (profiles(queue(disabled=["*"])), "no plugin that sorts", ("profiles", 0, "plugins", "queueSort")),
    (profiles(queue(), queue(name="b", enabled=["PrioritySort"])), "differs from that of the first profile", ("profiles", 1, "plugins", "queueSort")),
    (with_args("VolumeBinding", bindTimeoutSeconds=-1), "bindTimeoutSeconds is -1", ("profiles", 0, "pluginConfig", 0)),
    (with_args("DefaultPreemption", minCandidateNodesPercentage=101), "is 101", ("profiles", 0, "pluginConfig", 0)),
    (with_args("DefaultPreemption", minCandidateNodesAbsolute=-1), "is -1", ("profiles", 0, "pluginConfig", 0)),
    (with_args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0), "both 0", ("profiles", 0, "pluginConfig", 0)),
])  # fmt: skip
def test_what_changes_no_verdict_is_refused_as_kube_scheduler_refuses_it(bad, words, path):
    with pytest.raises(SchedulerConfigurationError) as refused:
        parse_scheduler_configuration(bad)
    assert words in str(refused.value)
    assert refused.value.path == path


@pytest.mark.parametrize("good", [
    {"parallelism": 1, "percentageOfNodesToScore": 0, "podInitialBackoffSeconds": 10},
    {"leaderElection": {"leaderElect": False, "leaseDuration": "1s"}},
    {"leaderElection": {"leaderElect": True, "leaseDuration": "0s"}},
    {"clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 50, "burst": 100}},
    {"healthzBindAddress": "", "enableProfiling": True, "delayCacheUntilActive": True},
    profiles(queue(enabled=["PrioritySort"], disabled=["*"])),
    with_args("VolumeBinding", bindTimeoutSeconds=0),
    with_args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=1),
])  # fmt: skip
def test_what_kube_scheduler_takes_is_taken(good):
    assert parse_scheduler_configuration(document() | good) == Profile()


def test_the_other_profiles_of_the_document_are_of_the_same_process():
    found = parse_scheduler_configuration(document() | profiles(queue(), queue(name="b")))
    assert found == Profile(process=frozenset({"b"}))
    other = parse_scheduler_configuration(document() | profiles(queue(name="b"), queue(name="c")))
    assert other == Profile(scheduler_name="b", process=frozenset({"c"}))
