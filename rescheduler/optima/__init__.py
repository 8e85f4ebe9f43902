"""The best that a plan could reach: exact models on counts of pods by class and node (extra ``prove``)."""
