"""Policies: which pods are badly placed, how badly, and why. One file each, one line in the registry."""
