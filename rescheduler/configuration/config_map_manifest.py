"""A document that stands as text under a key of a ConfigMap manifest, as people keep configuration."""

from __future__ import annotations

from rescheduler.configuration.strictyaml import Document


def text_within(document: Document, key: str) -> tuple[str, int] | None:
    """The text, and the lines before it; None if the document is no ConfigMap that has it."""
    data = document.data
    if (
        not isinstance(data, dict)
        or data.get("kind") != "ConfigMap"
        or not isinstance(data.get("data"), dict)
    ):
        return None
    text = data["data"].get(key)
    return (text, document.line(("data", key))) if isinstance(text, str) else None
