"""Proof at the sizes people run: true shapes with random weights on a GPU, made to say recorded answers."""
