"""No garbage collection while whole lists are decoded or a decision is made; afterwards what stays is frozen.

Measured: 64-91 % of the time of bulk decoding is the collector looking at objects that stay; a collection afterwards would
stop every thread, those that answer API servers included: at 5,000 nodes for 25 ms after a decision, 75 ms in full. The collector
belongs to the whole process, so there is one pause, counted.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_RARELY: Final = (500_000, 2, 2)
"""So that all is looked through after two million new objects, some 200 MB; and what stays once or twice, which is what it costs."""
EVERYTHING_EVERY_S: Final = 6 * 3_600.0
_YOUNG: Final = 1


class GarbagePause:
    """Several threads may be inside. Once the last one is out, the collector is on again.

    If any of them called ``settle``, everything that is there then is collected once and frozen.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._settled = self._kept = False
        self._clock = clock
        self._everything_at_s = clock()

    @contextmanager
    def during(self) -> Iterator[None]:
        """No automatic collection inside."""
        with self._lock:
            self._inside += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._leave()

    def settle(self) -> None:
        """Say, inside, that a list is complete: its objects will stay."""
        self._settled = True

    def keep(self) -> None:
        """Say, inside and at the start, that the work leaves no garbage for the collector: what is left is frozen without a look.

        What others leave meanwhile, and what ended after it was frozen, is found every EVERYTHING_EVERY_S.
        """
        gc.collect(_YOUNG)
        self._kept = True

    def _leave(self) -> None:
        everything = self._kept and self._clock() - self._everything_at_s >= EVERYTHING_EVERY_S
        if everything:
            self._everything_at_s = self._clock()
            gc.unfreeze()
        if everything or self._settled:
            gc.collect()
        if self._settled or self._kept:
            gc.freeze()
        self._settled = self._kept = False
        gc.enable()


@contextmanager
def rare_collections() -> Iterator[None]:
    """For a command that ends soon: nearly all that it makes stays. What a long search leaves behind is still bounded."""
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


PROCESS_PAUSE = GarbagePause()
"""The pause that all informers of the process share."""
