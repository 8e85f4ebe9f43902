"""``rescheduler drain`` and ``uncordon``: nodes are emptied by moves whose room is reserved first."""
