"""Answers that keep to a grammar: compiling it, following it token by token, choosing within it."""
