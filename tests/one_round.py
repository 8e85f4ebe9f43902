"""A reconciler whose ConfigMaps keep nothing, for tests of single rounds."""

from rescheduler.controller.effects import NO_EFFECT
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.recording import MoveRecorder
from rescheduler.model.config_map import MISSING


class Keys:
    """A ConfigMap that nobody looks at."""

    def read(self):
        return MISSING

    def write(self, stored, add, remove, valid_until_s):
        return stored


class Recorder:
    """Carries out nothing, and notes what was to be done."""

    def __init__(self):
        self.calls = []

    def send(self, call):
        self.calls.append(call)
        return NO_EFFECT


def reconciler(sender, switch=None, **more):
    gate, hints, history = (
        Mirror(switch=switch or Keys(), lenient=lenient) for lenient in (True, False, False)
    )
    recorder = MoveRecorder(mirror=history)
    return Reconciler(sender=sender, gate=gate, hints=hints, recorder=recorder, **more)
