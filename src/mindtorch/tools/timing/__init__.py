"""Where the time of a training step goes: data, host to device, forward, backward, optimiser."""
