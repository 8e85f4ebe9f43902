"""KubeSchedulerConfiguration documents: what they change, and how bad ones are refused."""

import pytest

from rescheduler.scheduling.configuration import SchedulerConfigurationError, parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile, ScoringStrategy
from rescheduler.testing.differential.named_configurations import REFUSED


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
    profile = parse_scheduler_configuration(
        document(
            plugins={
                "multiPoint": {"disabled": [{"name": "NodePorts"}]},
                "score": {
                    "disabled": [{"name": "ImageLocality"}],
                    "enabled": [{"name": "NodeAffinity", "weight": 9}],
                },
            }
        )
    )
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
    profile = parse_scheduler_configuration(
        with_args(
            "NodeResourcesFit",
            scoringStrategy={
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu"}],
                "requestedToCapacityRatio": {"shape": shape},
            },
        )
    )
    assert profile.fit_strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
    assert [tuple(item) for item in profile.fit_resources] == [("example.com/gpu", 5), ("cpu", 1)]
    assert [tuple(point) for point in profile.fit_shape] == [(0, 0), (100, 10)]


def test_the_named_profile_is_chosen():
    both = document(schedulerName="other") | {}
    both["profiles"].append({"schedulerName": "default-scheduler"})
    assert parse_scheduler_configuration(both).scheduler_name == "default-scheduler"
    assert parse_scheduler_configuration(both, "other").scheduler_name == "other"


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
    with pytest.raises(SchedulerConfigurationError, match=r"^(profiles|plugins|pluginConfig|not a Kube)"):
        parse_scheduler_configuration(REFUSED[name])
