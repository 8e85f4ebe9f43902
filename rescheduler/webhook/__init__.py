"""The gate and the hint for clusters without MutatingAdmissionPolicy: a mutating webhook inside the controller."""
