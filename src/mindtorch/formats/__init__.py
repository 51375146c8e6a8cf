"""Leaf room: files of other frameworks as plain Python objects and NumPy arrays. Standard library and NumPy only."""
