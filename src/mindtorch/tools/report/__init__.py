"""The report of a profiled program: one HTML page, and the same figures as JSON."""
