"""Slots, batches and the loop that answers requests."""
