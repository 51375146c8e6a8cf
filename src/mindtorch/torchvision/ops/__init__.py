"""Operations on boxes, and losses of detection."""

from .boxes import batched_nms as batched_nms
from .boxes import box_area as box_area
from .boxes import box_convert as box_convert
from .boxes import box_iou as box_iou
from .boxes import clip_boxes_to_image as clip_boxes_to_image
from .boxes import generalized_box_iou as generalized_box_iou
from .boxes import nms as nms
from .boxes import remove_small_boxes as remove_small_boxes
from .focal_loss import sigmoid_focal_loss as sigmoid_focal_loss

__all__ = [
    "batched_nms",
    "box_area",
    "box_convert",
    "box_iou",
    "clip_boxes_to_image",
    "generalized_box_iou",
    "nms",
    "remove_small_boxes",
    "sigmoid_focal_loss",
]
