"""``api_dump_compare``: the tables, the csv files and the first divergence of two dumps."""

from __future__ import annotations

from typing import Any

from mindtorch import log
from mindtorch.tools.compare.comparison import Comparison, Options, compare
from mindtorch.tools.compare.measure import Tolerance


def api_dump_compare(
    origin_path: str,
    target_path: str,
    output_path: str | None = None,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    ignore_unmatched: bool = False,
    **kwargs: Any,
) -> Comparison:
    """Print the tables of two dumps (of `api_dump_init`, or of TroubleShooter 1.0.16 to 1.0.18) and the first divergence.

    Args:
        origin_path, target_path: output_path of the two runs, or a rank's folder in it.
        output_path: write ``ts_api_forward_compare_<step>.csv`` and the like here.
        rtol, atol: an element counts as equal when ``|a - b| <= atol + rtol * |b|``. float16 and bfloat16 get at least one
            unit in the last place; ``tolerances={"float16": (rtol, atol)}`` sets other values by dtype.
        equal_nan: NaN equals NaN.
        ignore_unmatched: leave out rows that one side alone has.
        ignore_backward: leave out gradients.

    Returns a `Comparison`, which is true when the runs agree. No process pool is used: it may be called from anywhere.

    ValueError when a path holds no dump, TypeError for tolerances that are no floats and for unknown keywords.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not isinstance(value, float):
            raise TypeError(f"api_dump_compare: {name} must be a float, got {value!r}")
    ignore_backward = kwargs.pop("ignore_backward", False)
    tolerances = kwargs.pop("tolerances", None)
    method = kwargs.pop("convinced_match_method", None)
    if method is not None:
        log.ignored("api_dump_compare", "convinced_match_method", "calls are aligned by one method that needs no choice")
    if kwargs:
        raise TypeError(f"api_dump_compare() got an unexpected keyword argument {next(iter(kwargs))!r}")
    options = Options(Tolerance(rtol, atol, equal_nan, tolerances), ignore_unmatched, ignore_backward)
    result = compare(origin_path, target_path, options, output_path)
    print(result.text())
    return result
