"""Public test kit: builders of records and manifests, clock, real control plane, fault injection."""
