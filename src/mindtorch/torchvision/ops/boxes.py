"""Boxes: areas, overlaps, formats, suppression. A box is ``(x1, y1, x2, y2)`` in a tensor ``(N, 4)`` unless told
otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

import mindtorch.torch as torch


def box_area(boxes: Any) -> Any:
    """``(N, 4)`` to ``(N,)``."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _overlap(a: Any, b: Any) -> tuple[Any, Any]:
    """Intersections and unions of all pairs, ``(N, M)``. Integers are widened so that areas do not overflow."""
    if not a.is_floating_point():
        a, b = a.to(torch.int64), b.to(torch.int64)
    size = (torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(min=0)
    inter = size[:, :, 0] * size[:, :, 1]
    return inter, box_area(a)[:, None] + box_area(b) - inter


def box_iou(boxes1: Any, boxes2: Any) -> Any:
    """Intersection over union of all pairs: ``(N, 4)``, ``(M, 4)`` to ``(N, M)``."""
    inter, union = _overlap(boxes1, boxes2)
    return inter / union


def generalized_box_iou(boxes1: Any, boxes2: Any) -> Any:
    """Generalised intersection over union of all pairs (arXiv 1902.09630)."""
    inter, union = _overlap(boxes1, boxes2)
    low, high = torch.min(boxes1[:, None, :2], boxes2[:, :2]), torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    size = (high - low).clamp(min=0)
    hull = size[:, :, 0] * size[:, :, 1]
    return inter / union - (hull - union) / hull


def clip_boxes_to_image(boxes: Any, size: tuple[int, int]) -> Any:
    """Boxes cut to an image of ``size`` (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return torch.stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


def remove_small_boxes(boxes: Any, min_size: float) -> Any:
    """Indices of boxes with both sides of ``min_size`` and more."""
    wide, high = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return torch.where((wide >= min_size) & (high >= min_size))[0]


def box_convert(boxes: Any, in_fmt: str, out_fmt: str) -> Any:
    """Between "xyxy", "xywh" and "cxcywh". ValueError for another format."""
    known = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in known or out_fmt not in known:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        a, b, c, d = a, b, c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return torch.stack((a, b, c, d), dim=-1)


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Indices of the boxes kept, best score first: a box goes when it overlaps a better one by more than the
    threshold."""
    if boxes.dim() != 2 or boxes.shape[-1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor with 4 columns, got shape {tuple(boxes.shape)}")
    if scores.dim() != 1 or scores.shape[0] != boxes.shape[0]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {boxes.shape[0]} and "
            f"{tuple(scores.shape)}"
        )
    box = boxes.detach().cpu().to(torch.float64 if boxes.dtype == torch.float64 else torch.float32).numpy()
    order = np.argsort(-scores.detach().cpu().to(torch.float64).numpy(), kind="stable")
    x1, y1, x2, y2 = box.T
    area = (x2 - x1) * (y2 - y1)
    keep = []
    while order.size:
        i, rest = order[0], order[1:]
        keep.append(int(i))
        w = np.maximum(0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]))
        h = np.maximum(0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
        inter = w * h
        order = rest[~(inter > iou_threshold * (area[i] + area[rest] - inter))]
    return torch.tensor(keep, dtype=torch.int64, device=boxes.device)


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """`nms` within each class of ``idxs`` (N,)."""
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64, device=boxes.device)
    kept = torch.zeros_like(scores, dtype=torch.bool)
    for c in torch.unique(idxs):
        mine = torch.where(idxs == c)[0]
        kept[mine[nms(boxes[mine], scores[mine], iou_threshold)]] = True
    keep = torch.where(kept)[0]
    return keep[scores[keep].sort(descending=True)[1]]
