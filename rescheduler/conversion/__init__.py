"""Converts the configuration of descheduler to the one of this program.

``policy_document`` reads a DeschedulerPolicy (v1alpha1, v1alpha2), ``evictor`` and ``plugins`` say what each of its
lines becomes, ``converted_document`` writes the result. Pure: the text is handed in, and nothing is asked of a cluster.
"""
