"""Is it the same text? Every way of answering, compared token by token with plain decoding."""
