"""What survives a request: states of prompts read before, on the device, on the host and on disk, as one tree."""
