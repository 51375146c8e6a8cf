"""``GradScaler``: losses are scaled up so that small half-precision gradients survive; bad steps are skipped."""

from __future__ import annotations

import math
import warnings
from enum import Enum
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """Where an optimizer is between two calls of ``update``."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _PerOptimizer:
    """What is known of one optimizer since the last ``update``."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found_inf: bool | None = None


class GradScaler:
    """``scale(loss).backward(); step(optimizer); update()``. The scale halves after infinities and doubles after
    ``growth_interval`` good steps."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not torch.cuda.is_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._init_scale = init_scale
            self._scale: Tensor | None = None
            self._growth_factor = growth_factor
            self._backoff_factor = backoff_factor
            self._growth_interval = growth_interval
            self._growth_tracker = 0
            self._per_optimizer: dict[int, _PerOptimizer] = {}

    def _current(self, fn: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {fn} but _scale is None.  This may indicate your script did not use scaler.scale(loss or "
                "outputs) earlier in the iteration."
            )
        return self._scale

    def _state_of(self, optimizer: Any) -> _PerOptimizer:
        return self._per_optimizer.setdefault(id(optimizer), _PerOptimizer())

    # ------------------------------------------------------------------------------------ one iteration
    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in lists and tuples, times the scale. ValueError for anything else."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = torch.full((), self._init_scale, dtype=torch.float32)
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(o) for o in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        if hasattr(outputs, "__iter__") and not isinstance(outputs, (str, bytes)):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _divide(self, optimizer: Any, allow_fp16: bool) -> bool:
        """Divide the optimizer's gradients by the scale, in place; whether one is not finite."""
        inverse = self._current("unscale_").double().reciprocal().float()
        bad = False
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if not allow_fp16 and p.grad.dtype == torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    bad = bad or not bool(torch.isfinite(p.grad).all())
                    p.grad.mul_(inverse.to(p.grad.dtype) if p.grad.dtype == torch.float64 else inverse)
        return bad

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, so that they can be clipped. Once between two updates."""
        if not self._enabled:
            return
        self._current("unscale_")
        state = self._state_of(optimizer)
        if state.stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state.found_inf = self._divide(optimizer, False) if self._has_grads(optimizer) else None
        state.stage = OptState.UNSCALED

    @staticmethod
    def _has_grads(optimizer: Any) -> bool:
        return any(p.grad is not None for g in optimizer.param_groups for p in g["params"])

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step`` unless a gradient is infinite or NaN; returns what it returned, None when skipped."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._current("step")
        state = self._state_of(optimizer)
        if state.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state.stage is OptState.READY:
            self.unscale_(optimizer)
        if state.found_inf is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if state.found_inf else optimizer.step(*args, **kwargs)
        state.stage = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to what `step` found, or set it."""
        if not self._enabled:
            return
        scale = self._current("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                if new_scale.numel() != 1 or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element torch.FloatTensor with requires_grad=False."
                    )
                new_scale = new_scale.reshape(())
            scale.fill_(new_scale)
        else:
            found = [s.found_inf for s in self._per_optimizer.values() if s.found_inf is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(scale, any(found))
        self._per_optimizer.clear()

    def _adapt(self, scale: Tensor, bad: bool) -> None:
        if bad:
            scale.mul_(self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = scale * self._growth_factor
            if math.isfinite(grown.item()):
                scale.copy_(grown)
            self._growth_tracker = 0

    # ------------------------------------------------------------------------------------ numbers
    def get_scale(self) -> float:
        """The scale (1.0 when disabled)."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """See `get_growth_factor`."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after infinities."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """See `get_backoff_factor`."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Good steps in a row before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """See `get_growth_interval`."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether this scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and counter (empty when disabled)."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._per_optimizer:
            raise RuntimeError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        return self.__dict__.copy()
