"""libllama: the only place in the project that touches ctypes."""

import os

# Threads that wait for each other spin for milliseconds by default (GNU OpenMP, where the library was built with it).
# When another program takes one of their cores, the others then keep theirs for themselves: 5 ms of a step became 600.
# Read when the library is loaded; who sets one of these knows better.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
