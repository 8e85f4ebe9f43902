"""The vocabulary of the program: records of cluster objects, quantities, selectors, the Snapshot.

Pure: no I/O, no clock, no randomness. Everything above speaks in these types.
"""
