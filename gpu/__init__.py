"""llama.cpp for `make bench-gpu`: gathered, trimmed and built with CUDA, by plain Python with nothing installed."""
