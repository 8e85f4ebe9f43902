"""Whether the CRDs and admission policies in the cluster are of the version of this program; where not, the words with the remedy.

Nothing depends on the answer: what one version writes, the policies of the next one and of the one before admit (docs/upgrading.md). But
further apart they refuse it, and what is older lacks rules. Each of these objects has its version in a label; without it, it is of 0.1.0 or before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rescheduler import __version__
from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, ForbiddenError, NotFoundError, NotServedError
from rescheduler.kube.transport import TransportError
from rescheduler.model.object_meta import Described

_OURS: Final = "app.kubernetes.io/name=rescheduler"
_VERSION: Final = "app.kubernetes.io/version"
_COLLECTIONS: Final = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
}
_APPLY: Final = "apply the manifests of {version}: kubectl apply -k manifests/ (or helm upgrade)"
_PRUNE: Final = (
    "they may refuse what {version} writes: kubectl apply -k manifests/ --prune -l app.kubernetes.io/name=rescheduler "
    "with the --prune-allowlist of docs/upgrading.md, or upgrade the program"
)


class _Rule(NamedTuple):
    kind: str
    name: str
    version: str
    """"": it has none."""

    @property
    def newer(self) -> bool:
        """Than this program."""
        return _number(self.version) > _number(__version__)

    def __str__(self) -> str:
        return f"{self.kind} {self.name} is of {self.version or '0.1.0 or before'}"


class InstalledRules(NamedTuple):
    """What was found, for people."""

    others: str = ""
    """Which rules are of another version, and the command that mends it; "": none is known to be."""
    unknown: str = ""
    """Why it may not be seen."""
    names: frozenset[str] = frozenset()
    """Of all that were found."""


def installed_rules(api: KubeApi) -> InstalledRules:
    """Look at the cluster; a failure of the call is not told, because nothing depends on the answer."""
    try:
        found = [rule for kind in _COLLECTIONS for rule in _rules(api, kind)]
    except ForbiddenError as error:
        return InstalledRules(
            unknown=f"{error.message}; the role may be of an older version: {_APPLY.format(version=__version__)}"
        )
    except (ApiError, TransportError):
        return InstalledRules()
    names = frozenset(rule.name for rule in found)
    others = [rule for rule in found if rule.version != __version__]
    if not others:
        return InstalledRules(names=names)
    newer = [rule for rule in others if rule.newer]
    first, more = (newer or others)[0], len(others) - 1
    rest = f", and {more} more are of another version" if more else ""
    remedy = (_PRUNE if newer else _APPLY).format(version=__version__)
    return InstalledRules(f"{first}{rest}, and this program is {__version__}: {remedy}", names=names)


def _rules(api: KubeApi, kind: str) -> list[_Rule]:
    try:
        body = api.get(_COLLECTIONS[kind], {"labelSelector": _OURS, "limit": "100"})
    except (NotFoundError, NotServedError):  # before 1.36
        return []
    objects = read_items(body, Described)
    return [_Rule(kind, o.metadata.name, (o.metadata.labels or {}).get(_VERSION, "")) for o in objects]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
