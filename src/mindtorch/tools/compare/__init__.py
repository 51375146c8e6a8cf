"""Comparison of two API dumps: reading, alignment, numbers, tables, and the first divergence."""
