"""Calls of our own kinds, where they may not be served or not be allowed: what is wrong is told with its remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rescheduler.cli.errors import CommandError
from rescheduler.kube.errors import ForbiddenError, NotFoundError, NotServedError
from rescheduler.model.names import API_VERSION

_INSTALL = "install it: kubectl apply -k manifests/, docs/installing.md"


@contextlib.contextmanager
def installed(plural: str) -> Iterator[None]:
    """Around calls of the collection itself: it is not found only where its kind is not served. Raises CommandError."""
    try:
        yield
    except (NotFoundError, NotServedError) as error:
        message = f"rescheduler is not installed in this cluster: it does not serve {plural} of {API_VERSION}"
        raise CommandError(f"{message} ({_INSTALL})") from error


@contextlib.contextmanager
def allowed(what: str, remedy: str) -> Iterator[None]:
    """Around calls for which a right may be missing. ``what``: "list pods in namespace shop". Raises CommandError."""
    try:
        yield
    except ForbiddenError as error:
        said = error.message or "the API server refuses"
        raise CommandError(f"you may not {what}: {said} ({remedy})") from error
