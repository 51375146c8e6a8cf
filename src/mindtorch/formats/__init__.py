"""Leaf room: files of other frameworks as plain Python objects and NumPy arrays. Standard library, NumPy and zlib-ng only.

Every format:  `weights` reads, writes and lists named weights of any file; `detect` tells the format from the contents.
One format each: `pth` (with the files below), `safetensors`, `npz`, `ckpt` (MindSpore).
Shared:  `files` (opened, replaced as a whole), `source` (bytes of a path, memory or file), `checksum`.

PyTorch's checkpoints, from the outside in:

- `pth`: the door: `load`, `save`, and readers that give NumPy arrays;
- `pth_load`, `pth_save`: from a file to an object and back, for whatever classes `pth_hooks` says;
- `pth_hooks`: what a file may name and what becomes of it; its default makes arrays;
- containers: `pth_zip` (since 1.6), `pth_legacy` (the stream and the tar before it);
- inside: `pth_pickle` (the unpickler that runs nothing, the pickler), `pth_storage` (dtypes, checked views);
- `pth_arrays` writes arrays as tensors; `pth_numpy` reads pickled arrays (files of mindtorch 0.4.0), `pth_sparse` makes
  sparse tensors dense.
"""
