"""Names of argument types that layers' signatures use."""

from __future__ import annotations

from typing import Union

_size_1_t = Union[int, tuple[int]]
_size_2_t = Union[int, tuple[int, int]]
_size_3_t = Union[int, tuple[int, int, int]]
_size_4_t = Union[int, tuple[int, int, int, int]]
_size_5_t = Union[int, tuple[int, int, int, int, int]]
_size_6_t = Union[int, tuple[int, int, int, int, int, int]]
_size_any_t = Union[int, tuple[int, ...]]
_size_any_opt_t = Union[int, None, tuple["int | None", ...]]
_size_2_opt_t = Union[int, None, tuple["int | None", "int | None"]]
_size_3_opt_t = Union[int, None, tuple["int | None", "int | None", "int | None"]]
_ratio_2_t = Union[float, tuple[float, float]]
_ratio_3_t = Union[float, tuple[float, float, float]]
_ratio_any_t = Union[float, tuple[float, ...]]
