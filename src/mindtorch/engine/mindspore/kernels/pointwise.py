"""MindSpore kernels of this family: see the package text."""
