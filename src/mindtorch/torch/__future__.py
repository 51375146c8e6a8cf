"""``torch.__future__``: switches that say how ``Module.to`` and ``load_state_dict`` replace parameters."""

from __future__ import annotations

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether converting a module makes new parameters (True) or changes the old ones in place (False, the default)."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """The value last set; False at the start."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether parameters are swapped with the new ones. Parameters here are changed in place; True behaves the same."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """The value last set; False at the start."""
    return _swap
