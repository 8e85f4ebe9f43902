"""The root of this package's errors: a program that uses the package catches them all by one name.

An error that is also a wrong value (a text that is not a quantity, for example) is a ``ValueError`` as well.
"""


class ReschedulerError(Exception):
    """Something that this package refuses, cannot read or cannot do."""


class TransitionError(ReschedulerError):
    """A step that the table of transitions does not know: a defect of the caller, never of the cluster."""


class PolicyError(ReschedulerError):
    """A policy failed, or gave what no policy may give: its author must act."""


class OwnerReplacedError(ReschedulerError):
    """The controller whose template a call was to use is another one of its name by now."""
