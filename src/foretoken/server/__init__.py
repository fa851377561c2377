"""The HTTP side: OpenAI's endpoints, llama.cpp's own, and what an operator needs."""
