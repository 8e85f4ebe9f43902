"""``rescheduler consolidate``: how many nodes can go, which, and emptying them by moves whose room is reserved first."""
