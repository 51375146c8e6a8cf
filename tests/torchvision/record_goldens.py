"""Record what the real torchvision gives. Run with a Python that has torch and torchvision:

python tests/torchvision/record_goldens.py
"""

import json
import pathlib
import warnings

import numpy as np

import cases
import torch
import torchvision

warnings.simplefilter("ignore")
HERE = pathlib.Path(__file__).parent


def main():
    torch.set_num_threads(1)
    arrays = {}
    for part in (cases.function_results, cases.class_results, cases.conversion_results, cases.other_results):
        arrays.update(part(torch, torchvision))
    index, block = cases.pack(arrays)
    np.savez_compressed(HERE / "goldens.npz", block=block, index=np.array(json.dumps(index)))
    facts = {
        "torchvision": torchvision.__version__,
        "reprs": dict(cases.reprs(torch, torchvision)),
        "models": {name: cases.model_facts(torch, torchvision, name) for name in cases.MODELS},
        "weights": {
            name: list(torchvision.models.get_model_weights(name).__members__)
            for name in torchvision.models.list_models(include=["resne*", "vgg*", "alexnet", "wide*"])
            if hasattr(torchvision.models, name)
        },
    }
    (HERE / "goldens.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    print(
        len(arrays), "arrays", (HERE / "goldens.npz").stat().st_size + (HERE / "goldens.json").stat().st_size, "bytes"
    )


if __name__ == "__main__":
    main()
