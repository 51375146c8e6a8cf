"""``torch.Generator`` and the default generator: PyTorch's CPU stream, state bytes included."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mindtorch.core import device as _device
from mindtorch.core.tensor import Tensor, wrap
from mindtorch.engine.host.mt19937 import Stream

DEFAULT_SEED = 67280421310721
"""Seed of a generator that was not seeded, as in PyTorch."""


def _check_seed(seed: int) -> int:
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed


def _random_seed() -> int:
    """53 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little") >> 11


class Generator:
    """A source of random numbers on the CPU: the same seed gives the numbers PyTorch's CPU generator gives."""

    __slots__ = ("__weakref__", "_device", "stream")
    __module__ = "mindtorch.torch"

    def __init__(self, device: Any = "cpu") -> None:
        """``device``: only the CPU has a generator here; other devices raise as tensors on them would."""
        self._device = _device.available(device)
        self.stream = Stream(DEFAULT_SEED)

    @property
    def device(self) -> Any:
        """Where the numbers are made."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Start over from ``seed`` in [-2**63, 2**64). Returns the generator."""
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        self.stream.reseed(_check_seed(int(seed)))
        return self

    def seed(self) -> int:
        """Start over from a seed the operating system gives, and return it."""
        value = _random_seed()
        self.stream.reseed(value)
        return value

    def initial_seed(self) -> int:
        """The seed last set, as an unsigned 64-bit number."""
        return self.stream.seed

    def get_state(self) -> Tensor:
        """The 5,056 bytes PyTorch gives for a generator at this place (uint8)."""
        return wrap(np.frombuffer(self.stream.state(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from a state of this or of PyTorch's generator. TypeError, RuntimeError when it is none."""
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.a.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        self.stream.restore(np.ascontiguousarray(new_state.a).tobytes())
        return self

    def clone_state(self) -> Generator:
        """A generator of its own at the same place."""
        new = Generator(self._device)
        new.stream = self.stream.clone()
        return new

    def graphsafe_get_state(self) -> Generator:
        """The generator itself: states are shared by reference under graph capture, which the CPU does not do."""
        return self

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Share the state of another generator."""
        self.stream = state.stream
        return self

    def get_offset(self) -> int:
        """Only counter-based generators of accelerators have an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Only counter-based generators of accelerators have an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self) -> Any:
        # PyTorch's form: (initial seed, offset of accelerators, state), so that files travel both ways.
        return Generator, (self._device,), (self.initial_seed(), None, self.get_state())

    def __setstate__(self, state: Any) -> None:
        self.set_state(state[2])

    def __repr__(self) -> str:
        return f"<mindtorch.torch.Generator object at {id(self):#x}>"


default_generator = Generator()
"""The generator of calls that name none."""
default_generator.seed()


def stream_for(generator: Any, name: str = "random") -> Stream:
    """The stream of ``generator``, the default one for None. TypeError for other objects."""
    if generator is None:
        return default_generator.stream
    if generator.__class__ is Generator or isinstance(generator, Generator):
        return generator.stream
    raise TypeError(f"{name}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}")


# ------------------------------------------------------------------------------------------ module functions
def manual_seed(seed: Any) -> Generator:
    """Seed the default generator (and those of accelerators, when there are any). Returns it."""
    return default_generator.manual_seed(_check_seed(int(seed)))


def seed() -> int:
    """Seed the default generator from the operating system and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """State of the default generator as a uint8 tensor of 5,056 bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default generator from ``new_state``."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> Generator | None:
    """The generator of the calling DataLoader worker thread; None in the main thread, meaning the default one."""
    return None
