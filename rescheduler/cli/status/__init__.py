"""``rescheduler status``: one screen of what the controller is doing, and what keeps it from more."""
