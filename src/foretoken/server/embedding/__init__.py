"""Texts to vectors and documents to scores, for models that can."""
