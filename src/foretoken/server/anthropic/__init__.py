"""Anthropic's dialect of a chat turn: its bodies, its blocks, its events."""
