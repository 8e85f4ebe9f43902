"""Compares the scheduling rules with the real kube-scheduler's code on random clusters.

``python -m harness.differential --clusters 500`` prints the agreement and how often each
plugin decided. Needs Go and a source checkout; nothing else of the project imports it.
"""
