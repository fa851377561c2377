"""Tools: what a client offers goes into the model's template, what the model calls is read back from its text.

A family's way to write calls is one small file (`hermes`, `qwen_xml`, `llama3`, `mistral`, `generic`): how to read it
while it streams, and the grammar that holds the model to it. `dialect` finds out which one a template speaks.
"""
