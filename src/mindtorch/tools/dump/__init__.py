"""API dump: records every call of a program that runs on PyTorch or mindtorch."""
