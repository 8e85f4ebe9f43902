"""Decodes a page of a list that an API server answered; apart from ``kube.answers``, so that not all who read answers load the decoders."""

from __future__ import annotations

from rescheduler.kube.answers import NotAnApiServerError
from rescheduler.model.decode import Decoder, ListPage, UndecodableError
from rescheduler.model.kinds import Kind


def read_page(body: bytes, decoder: Decoder, kind: Kind) -> ListPage:
    """The page, with what can be read of damaged objects.

    Raises:
        NotAnApiServerError: it is no list.
    """
    try:
        page = decoder.page(kind, body)
    except UndecodableError as error:
        raise NotAnApiServerError(body, str(error)) from error
    if not page.resource_version:
        raise NotAnApiServerError(body, "a list without a resourceVersion")
    return page
