"""Functions for moving a network from PyTorch to MindSpore, under the names TroubleShooter gave them.

``from mindtorch.tools import migrator``; nothing here imports PyTorch, MindSpore or mindtorch.torch until it is used.
"""

from __future__ import annotations

from mindtorch.tools.late import late

_FROM = {
    "api_dump_init": "api_dump",
    "api_dump_start": "api_dump",
    "api_dump_stop": "api_dump",
    "api_dump_compare": "api_compare",
    "get_weight_map": "weight_map",
    "convert_weight": "weight_map",
    "convert_weight_and_load": "weight_map",
    "save_net_and_weight_params": "weight_map",
    "compare_ms_ckpt": "weight_compare",
    "compare_pth_and_ckpt": "weight_compare",
    "save": "saving",
    "save_grad": "saving",
    "compare_npy_dir": "npy_compare",
    "compare_list_dir": "npy_compare",
    "compare_dict_dir": "npy_compare",
    "compare_grads_dir": "npy_compare",
    "get_name_map_list_by_name": "npy_compare",
    "get_name_map_list_by_number": "npy_compare",
    "get_name_map_list_by_shape_edit_distance": "npy_compare",
    "cal_algorithm": "npy_compare",
    "cal_cosine_sim": "npy_compare",
    "NetDifferenceFinder": "net_difference",
}
"""Public function -> the file of this package it lives in."""

__getattr__, __dir__ = late(__name__, _FROM)
