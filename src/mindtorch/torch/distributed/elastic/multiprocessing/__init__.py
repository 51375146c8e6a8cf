"""The places where torchrun keeps ``record``."""
