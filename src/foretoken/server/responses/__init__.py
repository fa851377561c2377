"""OpenAI's Responses: conversations the server keeps, in items and named events."""
