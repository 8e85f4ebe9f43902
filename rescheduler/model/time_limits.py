"""Times on which more than one layer relies. Constants only; ``controller.time_limits`` has the table of all of them.

Promises: whoever gates a pod sees what happens to it in time, because a dead connection is left before the gate's limit ends.
"""

from __future__ import annotations

from typing import Final

WATCH_LASTS_S: Final = (22, 30)
"""Asked of the server for a watch, at random in between, so that not all watches end together. Its end proves that it lived."""
FIRST_WATCH_LASTS_S: Final = (240, 480)
"""The same for a watch that begins with all objects, which take their time in a large cluster."""
SILENCE_S: Final = 35.0
"""A watch without a word for so long is a connection to leave: the server ends each one sooner."""
RECONNECT_S: Final = 4.0
"""Longest pause of an informer before it asks again, if no server answered."""
ROUND_S: Final = 2.0
"""A round of the loop and the call that it leads to, under load."""
LEAST_GATE_LIMIT_S: Final = 50.0
"""A gated pod is seen within the silence of a dead watch, a pause and a round, and a scheduler that is back answers in three quarters."""
