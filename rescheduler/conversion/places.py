"""Finds the DeschedulerPolicy in what people keep: manifests, values of its Helm chart, and what carries such values.

A policy is an object of its kind, what stands under ``deschedulerPolicy`` anywhere (values of the chart, also below the name
that an umbrella chart gives it, in a HelmRelease, an Argo CD Application, a kustomization ...), or a KubeDescheduler. Texts
that hold one of these are opened, too, as in ConfigMaps. Exactly one policy may be in the text: which of two is meant is not
guessed. What may change the policy from outside of the text is a remark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.strictyaml import Document, Path, Word, YamlError, load_all
from rescheduler.conversion.converted_document import Remark
from rescheduler.conversion.operator_profiles import OPERATOR_KIND, generated
from rescheduler.yaml_limits import decoded

KIND: Final = "DeschedulerPolicy"
VERSIONS: Final = ("descheduler/v1alpha1", "descheduler/v1alpha2")
_POLICY: Final = "deschedulerPolicy"
_VERSION: Final = "deschedulerPolicyAPIVersion"
_TEXT_DEPTH: Final = 4
"""Texts within texts."""
_SIGNS: Final = (KIND, _POLICY, OPERATOR_KIND)
"""A text without any of these holds no policy."""
_NOT_SEARCHED: Final = ("metadata", "status")
"""Of objects: a manifest that was applied before stands in an annotation."""
_REMEDY: Final = (
    "give a DeschedulerPolicy, what has one in it (a ConfigMap, values of its Helm chart, a HelmRelease, an Argo CD Application), "
    "or a KubeDescheduler; values without deschedulerPolicy mean the defaults of the chart: 'helm get values --all' prints them"
)
_FROM_OUTSIDE: Final = ("valuesFrom", "valueFiles", "valuesFiles", "fileParameters")
_NOT_SEEN: Final = "values that stand elsewhere are not seen: give what 'helm get values --all' prints if they change the policy"


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """Where the policy is. ``document``: the YAML document that holds it, with the lines of the whole text."""

    document: Document
    path: Path
    version: str
    remarks: tuple[Remark, ...] = ()

    @property
    def policy(self) -> Any:
        """Its value."""
        return self.document.at(self.path)


def find_policy(text: str | bytes, file: str, word: Word) -> FoundPolicy:
    """The one policy in the text. ``word``: what an unquoted word means to Kubernetes.

    Raises:
        ConfigurationError: the text is no YAML, or holds no policy, or several, or one that cannot be read.
    """
    search = _Search(file, word)
    documents = search.documents(text)
    found: list[FoundPolicy] = []
    for document in documents:
        found += search.within(document, (), 0)
    if not found:
        raise _nothing(documents, file)
    first = found[0]
    for other in found[1:]:
        if (other.policy, other.version) != (first.policy, first.version):
            lines = ", ".join(str(place.document.line(place.path)) for place in found)
            message = f"{len(found)} policies are here, on the lines {lines}"
            raise ConfigurationError(
                [Problem(file, other.document.line(other.path), "", message, "keep one in the file")]
            )
    return first


def _nothing(documents: tuple[Document, ...], file: str) -> ConfigurationError:
    if len(documents) != 1:
        message = "no policy is in any of its documents" if documents else "this is no mapping"
        return ConfigurationError([Problem(file, 1, "", message, _REMEDY)])
    (document,) = documents
    if not isinstance(document.data, dict):
        return ConfigurationError([Problem(file, document.line(()), "", "this is no mapping", _REMEDY)])
    kind = document.data.get("kind")
    message = f"the kind is {kind!r}, and no policy is in it" if kind is not None else "'kind' is missing"
    return ConfigurationError([Problem(file, document.line(("kind",)), "kind", message, _REMEDY)])


class _Search:
    def __init__(self, file: str, word: Word) -> None:
        self._file = file
        self._word = word
        self._last_line = 1

    def documents(self, text: str | bytes) -> tuple[Document, ...]:
        """Those of the whole text. Raises ConfigurationError."""
        found = self._loaded(text, 0)
        self._last_line = decoded(text).count("\n") + 1
        return found

    def within(self, document: Document, path: Path, depth: int) -> Iterator[FoundPolicy]:
        """The policies in the value at ``path``; ``depth``: of texts within texts."""
        value = document.at(path)
        if isinstance(value, str):
            yield from self._in_text(document, path, value, depth)
        elif isinstance(value, list):
            for index in range(len(value)):
                yield from self.within(document, (*path, index), depth)
        elif isinstance(value, dict):
            yield from self._in_mapping(document, path, value, depth)

    def _in_mapping(
        self, document: Document, path: Path, value: dict[str, Any], depth: int
    ) -> Iterator[FoundPolicy]:
        kind = value.get("kind")
        if kind == KIND:
            version = self._known(value.get("apiVersion"), document.line((*path, "apiVersion")))
            yield FoundPolicy(document, path, version)
            return
        if kind == OPERATOR_KIND:
            made, remarks = generated(document, path, self._file)
            yield FoundPolicy(made, (), VERSIONS[1], remarks)
            return
        remarks = tuple(self._around(document, path, value))
        for key, inner in value.items():
            if key in _NOT_SEARCHED and "kind" in value:
                continue
            if key == _POLICY and isinstance(inner, dict):
                self._refuse_templates(document, (*path, key))
                yield FoundPolicy(document, (*path, key), self._of_values(document, path, value), remarks)
                continue
            for place in self.within(document, (*path, key), depth):
                yield FoundPolicy(place.document, place.path, place.version, (*remarks, *place.remarks))

    def _of_values(self, document: Document, path: Path, values: dict[str, Any]) -> str:
        policy = values[_POLICY]
        if policy.get("kind") == KIND and "apiVersion" in policy:
            return self._known(policy["apiVersion"], document.line((*path, _POLICY, "apiVersion")))
        # Charts of descheduler 0.26 and older know one version only, and their values do not name it.
        old = "strategies" in policy
        version = values.get(_VERSION, VERSIONS[0] if old else VERSIONS[1])
        return self._known(version, document.line((*path, _VERSION)))

    def _around(self, document: Document, path: Path, value: dict[str, Any]) -> Iterator[Remark]:
        """What of a mapping around a policy may change what it does."""
        for key in _FROM_OUTSIDE:
            if value.get(key):
                yield Remark(document.line((*path, key)), key, _NOT_SEEN)
        if _POLICY in value and value.get("enabled") is False:
            reason = "the chart is not installed with these values, so descheduler moves nothing"
            yield Remark(document.line((*path, "enabled")), "enabled: false", reason)
        for index, parameter in enumerate(_listed(value.get("parameters"))):
            if isinstance(parameter, dict) and _POLICY in str(parameter.get("name")):
                line = document.line((*path, "parameters", index))
                remedy = "write it into the values of the same object"
                raise ConfigurationError(
                    [Problem(self._file, line, "parameters", "a parameter changes the policy", remedy)]
                )

    def _in_text(self, document: Document, path: Path, text: str, depth: int) -> Iterator[FoundPolicy]:
        is_policy = bool(path) and path[-1] == _POLICY
        if depth >= _TEXT_DEPTH or not (is_policy or any(word in text for word in _SIGNS)):
            return
        before = document.line(path)
        for inner in self._loaded(text, before):
            if not isinstance(inner.data, dict | list):
                continue
            lines = {at: min(line + before, self._last_line) for at, line in inner.lines.items()}
            placed = Document(inner.data, lines)
            if is_policy and isinstance(inner.data, dict) and "kind" not in inner.data:
                placed = Document({_POLICY: inner.data}, {(_POLICY, *at): line for at, line in lines.items()})
            yield from self.within(placed, (), depth + 1)

    def _loaded(self, text: str | bytes, before: int) -> tuple[Document, ...]:
        try:
            return load_all(text, self._word)
        except YamlError as error:
            line = error.line + before
            raise ConfigurationError([Problem(self._file, line, "", error.message, error.remedy)]) from error

    def _refuse_templates(self, document: Document, path: Path) -> None:
        for at, value in _texts(document, path):
            if "{{" in value:
                name = ".".join(str(step) for step in at)
                remedy = "give what 'helm template' or 'helm get values --all' prints"
                problem = Problem(self._file, document.line(at), name, "is a template of Helm", remedy)
                raise ConfigurationError([problem])

    def _known(self, version: object, line: int) -> str:
        if isinstance(version, str) and version in VERSIONS:
            return version
        remedy = f"use {' or '.join(VERSIONS)}"
        raise ConfigurationError([Problem(self._file, line, "apiVersion", f"is {version!r}", remedy)])


def _texts(document: Document, path: Path) -> Iterator[tuple[Path, str]]:
    value = document.at(path)
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for step in value if isinstance(value, dict) else range(len(value)):
            yield from _texts(document, (*path, step))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
