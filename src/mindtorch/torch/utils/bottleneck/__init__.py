"""``python -m torch.utils.bottleneck script.py``: see `mindtorch.torch.utils.bottleneck.__main__`."""
