"""Random histories on the embedded cluster in virtual time: the whole program, faults, crashes, a witness.

One seed is one history: a small cluster, what people ask of the program, what goes wrong meanwhile, and the
order in which everybody takes turns. What must hold is judged at every single write.
"""
