"""Is it faster? Measurements, recorded and never asserted."""
