"""Kernels on host memory, one file per family: NumPy first, SciPy and numba where measured faster (loaded lazily)."""
