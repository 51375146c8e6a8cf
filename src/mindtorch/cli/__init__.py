"""The command line: run a PyTorch program switched to mindtorch, and small commands. `switch` does the switching."""
