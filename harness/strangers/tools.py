"""The programs of others that tests run, each at the version that the tests are written for."""

from __future__ import annotations

from typing import Final

from harness.strangers.build import Tool

_GO: Final = "go1.27.3"
_WITHOUT_CLOUDS: Final = ("-tags=remove_all_sd",)

HELM: Final = Tool("helm", "helm.sh/helm/v3", "v3.19.0", "./cmd/helm")
"""Renders the chart."""
PROMTOOL: Final = Tool(
    "promtool", "github.com/prometheus/prometheus", "v0.313.5", "./cmd/promtool", flags=_WITHOUT_CLOUDS
)
"""Checks alerts and dashboard."""
PROMETHEUS: Final = Tool(
    "prometheus", PROMTOOL.module, PROMTOOL.version, "./cmd/prometheus", flags=_WITHOUT_CLOUDS
)
"""Is asked the dashboard's queries."""
KOORD_SCHEDULER: Final = Tool(
    "koord-scheduler", "github.com/koordinator-sh/koordinator", "v1.8.0", "./cmd/koord-scheduler"
)
DESCHEDULER: Final = Tool("descheduler", "sigs.k8s.io/descheduler", "v0.36.0", "./cmd/descheduler")
ROLLOUTS: Final = Tool(
    "rollouts-controller", "github.com/argoproj/argo-rollouts", "v1.10.2", "./cmd/rollouts-controller",
    toolchain=_GO, minutes=8,
)  # fmt: skip
"""Argo Rollouts: owner of ReplicaSets, and no workload that we know."""
KARPENTER: Final = Tool(
    "karpenter-kwok", "sigs.k8s.io/karpenter", "v1.15.0", "./kwok", toolchain=_GO, minutes=3
)
"""With the provider whose machines are Node objects alone."""

STRANGERS: Final = (DESCHEDULER, ROLLOUTS, KARPENTER)
"""Beside whom the controller is tried by ``make strangers``."""
TOOLS: Final = (HELM, PROMTOOL, PROMETHEUS, KOORD_SCHEDULER, *STRANGERS)
