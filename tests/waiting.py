"""Waiting for what other threads, processes and servers do."""

import time


def until(look, limit_s=60.0):
    """What ``look`` gives, once that is true; fails with what it gave last."""
    ends_s = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < ends_s, f"not within {limit_s:g} s: {found!r}"
        time.sleep(0.02)
    return found
