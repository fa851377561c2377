"""The engine in its own process: what is said to it, what it says, and who restarts it."""
