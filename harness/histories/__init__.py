"""Random histories on the sandbox in virtual time: the whole program, faults, crashes, a checker.

One seed is one history: a small cluster, what users request of the program, the faults, and the order in which the
components take turns. The invariants are checked at every write.
"""
