"""Every error of the package has one root, so that a program that uses the package can catch them all."""

import importlib
import pkgutil

import rescheduler
from rescheduler.errors import ReschedulerError


def errors_of_the_package():
    """Every exception class that a module of the package defines."""
    for module in pkgutil.walk_packages(rescheduler.__path__, "rescheduler."):
        names = vars(importlib.import_module(module.name))
        yield from (
            kind
            for kind in names.values()
            if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == module.name
        )


def test_every_error_has_the_root():
    found = set(errors_of_the_package())
    assert len(found) > 30
    assert {kind.__qualname__ for kind in found if not issubclass(kind, ReschedulerError)} == set()
