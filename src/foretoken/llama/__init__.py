"""libllama: the only place in the project that touches ctypes."""
