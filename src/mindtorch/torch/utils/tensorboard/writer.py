"""Event files for TensorBoard."""

from __future__ import annotations

import io
import os
import socket
import time
from datetime import datetime
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core.tensor import Tensor


def _need() -> tuple[Any, Any, Any]:
    """(summary protobufs, event protobuf, event file writer); ImportError that says what to install."""
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as e:
        raise ImportError("torch.utils.tensorboard needs the tensorboard package: pip install tensorboard") from e
    return summary_pb2, event_pb2, EventFileWriter


def _array(x: Any) -> np.ndarray:
    a = x.detach().resolve_conj().a if isinstance(x, Tensor) else np.asarray(x)
    return a.astype(np.float32) if a.dtype.name == "bfloat16" else a


def _png(image: np.ndarray) -> tuple[bytes, int, int, int]:
    """Height x width x channels as PNG bytes, with its sizes."""
    from PIL import Image

    scaled = image if image.dtype == np.uint8 else np.clip(image.astype(np.float64) * 255, 0, 255).astype(np.uint8)
    if scaled.ndim == 2:
        scaled = scaled[:, :, None]
    height, width, channels = scaled.shape
    out = io.BytesIO()
    Image.fromarray(scaled[:, :, 0] if channels == 1 else scaled).save(out, format="PNG")
    return out.getvalue(), height, width, channels


def _hwc(image: np.ndarray, dataformats: str) -> np.ndarray:
    """An image (or a batch, side by side) as height x width x channels."""
    order = dataformats.upper()
    if len(order) != image.ndim:
        raise ValueError(f"dataformats {dataformats!r} does not fit a tensor of shape {image.shape}")
    if "C" not in order:
        image, order = image[..., None], order + "C"
    if "N" in order:
        image = image.transpose([order.index(c) for c in "HNWC"])
        return image.reshape(image.shape[0], -1, image.shape[3])
    return image.transpose([order.index(c) for c in "HWC"])


class SummaryWriter:
    """Writes event files into ``log_dir`` (default ``runs/<time>_<host><comment>``)."""

    def __init__(
        self,
        log_dir: str | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self._summary, self._event, writer = _need()
        if not log_dir:
            log_dir = os.path.join(
                "runs", datetime.now().strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment
            )
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self._writer = writer(self.log_dir, max_queue, flush_secs, filename_suffix)
        if purge_step is not None:
            event = self._event.Event(wall_time=time.time(), step=purge_step)
            event.session_log.CopyFrom(self._event.SessionLog(status=self._event.SessionLog.START))
            self._writer.add_event(event)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, global_step: Any, walltime: float | None, **value: Any) -> None:
        summary = self._summary.Summary(value=[self._summary.Summary.Value(**value)])
        event = self._event.Event(wall_time=time.time() if walltime is None else walltime, summary=summary)
        if global_step is not None:
            event.step = int(global_step)
        self._writer.add_event(event)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number; stored in single precision whatever ``double_precision`` says, as TensorBoard shows it."""
        log.without_effect(
            "SummaryWriter.add_scalar",
            "numbers are stored in single precision, in the form every TensorBoard reads",
            new_style=(new_style, False),
            double_precision=(double_precision, False),
        )
        self._add(global_step, walltime, tag=tag, simple_value=float(_array(scalar_value)))

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Several numbers as ``main_tag/key``."""
        for key, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{key}", value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """The distribution of ``values``; ``bins`` as for ``numpy.histogram``, "tensorflow" is 64 equal ones."""
        a = _array(values).astype(np.float64).reshape(-1)
        if not a.size:
            raise ValueError("The input has no element.")
        edges = min(64, max_bins or 64) if bins == "tensorflow" else bins
        counts, limits = np.histogram(a, edges)
        histo = self._summary.HistogramProto(
            min=a.min(),
            max=a.max(),
            num=a.size,
            sum=a.sum(),
            sum_squares=float(a @ a),
            bucket_limit=limits[1:].tolist(),
            bucket=counts.astype(np.float64).tolist(),
        )
        self._add(global_step, walltime, tag=tag, histo=histo)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: floats in 0..1 or uint8."""
        data, height, width, channels = _png(_hwc(_array(img_tensor), dataformats))
        image = self._summary.Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=data)
        self._add(global_step, walltime, tag=tag, image=image)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A batch of pictures, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A matplotlib figure (or a list of them, side by side)."""
        figures = figure if isinstance(figure, (list, tuple)) else [figure]
        images = []
        for f in figures:
            f.canvas.draw()
            images.append(np.asarray(f.canvas.buffer_rgba())[:, :, :3])
            if close:
                import matplotlib.pyplot as plt

                plt.close(f)
        self.add_image(tag, np.concatenate(images, axis=1), global_step, walltime, "HWC")

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """A text in Markdown."""
        from tensorboard.plugins.text.metadata import create_summary_metadata

        try:
            metadata = create_summary_metadata(display_name="", description="")
        except TypeError:
            metadata = create_summary_metadata()
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype="DT_STRING", string_val=[text_string.encode("utf-8")], tensor_shape=shape)
        self._add(global_step, walltime, tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Settings of a run with its results: the settings as a text table, the results as numbers."""
        log.without_effect(
            "SummaryWriter.add_hparams",
            "the settings are a text table in this run's own folder",
            hparam_domain_discrete=(hparam_domain_discrete, None),
            run_name=(run_name, None),
        )
        rows = "\n".join(f"| {k} | {v} |" for k, v in hparam_dict.items())
        self.add_text("hparams", f"| name | value |\n|---|---|\n{rows}", global_step)
        for name, value in metric_dict.items():
            self.add_scalar(name, value, global_step)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Run ``model`` once on ``input_to_model`` (a tensor or a tuple) and draw which module feeds which.

        A node is one call of a module; PyTorch draws single operations, which mindtorch does not trace.
        ValueError without an input.
        """
        if input_to_model is None:
            raise ValueError("SummaryWriter.add_graph: input_to_model is needed, the model runs on it once")
        from mindtorch.torch.utils.tensorboard.graph import module_graph

        log.without_effect("SummaryWriter.add_graph", "nothing is traced", use_strict_trace=(use_strict_trace, True))
        graph = module_graph(model, input_to_model)
        if verbose:
            print(graph)
        self._writer.add_event(self._event.Event(wall_time=time.time(), graph_def=graph.SerializeToString()))

    def flush(self) -> None:
        """Write what is waiting."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._writer.flush()
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
