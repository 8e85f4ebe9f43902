"""The guard: evictions that others ask for wait at the API server until the pod has been moved with its room reserved first."""
