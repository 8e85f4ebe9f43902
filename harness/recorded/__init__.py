"""Recorded objects of releases: what each of them had stored, at every step of a move, for its successors to take over."""
