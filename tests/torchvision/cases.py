"""What is recorded from torchvision and compared: named cases over (torch, torchvision), results as tensors, numbers,
or text."""

# ruff: noqa: B023 (the functions are called before the loop goes on)

import random

import numpy as np
from PIL import Image


def pixels(h=11, w=14, c=3, seed=0):
    return np.random.RandomState(seed).randint(0, 256, (h, w, c) if c > 1 else (h, w)).astype(np.uint8)


def rgb(**kw):
    return Image.fromarray(pixels(**kw))


def gray():
    return Image.fromarray(pixels(c=1))


def byte(torch, **kw):
    return torch.from_numpy(pixels(**kw).transpose(2, 0, 1).copy())


def real(torch, **kw):
    return torch.from_numpy(pixels(**kw).transpose(2, 0, 1).astype(np.float32) / 255)


# Function name, arguments; each runs on an RGB image, a grey image, a byte tensor and a float tensor.
FUNCTIONS = [
    ("resize", ([7, 9],), {}),
    ("resize", (20,), {}),
    ("resize", (6,), {"max_size": 7}),
    ("resize", ([5, 17],), {"antialias": False}),
    ("hflip", (), {}),
    ("vflip", (), {}),
    ("pad", (2,), {}),
    ("pad", ([1, 2, 3, 4],), {"fill": 7}),
    ("pad", ([3, 2],), {"padding_mode": "edge"}),
    ("pad", ([3, 2],), {"padding_mode": "reflect"}),
    ("pad", ([3, 2],), {"padding_mode": "symmetric"}),
    ("crop", (2, 3, 5, 6), {}),
    ("crop", (-2, -3, 8, 30), {}),
    ("center_crop", ([5, 6],), {}),
    ("center_crop", (13,), {}),
    ("resized_crop", (1, 2, 7, 8, [5, 5]), {}),
    ("adjust_brightness", (0.6,), {}),
    ("adjust_brightness", (1.7,), {}),
    ("adjust_contrast", (0.4,), {}),
    ("adjust_contrast", (1.8,), {}),
    ("adjust_saturation", (0.3,), {}),
    ("adjust_saturation", (1.9,), {}),
    ("adjust_hue", (0.2,), {}),
    ("adjust_hue", (-0.35,), {}),
    ("adjust_gamma", (0.7,), {"gain": 1.1}),
    ("adjust_sharpness", (0.3,), {}),
    ("adjust_sharpness", (1.6,), {}),
    ("rgb_to_grayscale", (), {}),
    ("rgb_to_grayscale", (3,), {}),
    ("invert", (), {}),
    ("solarize", (0.5,), {}),
    ("autocontrast", (), {}),
    ("rotate", (30,), {}),
    ("rotate", (-75.5,), {"expand": True}),
    ("rotate", (15,), {"center": [2, 3]}),
    ("affine", (20, [1, -2], 1.3, [10.0, 5.0]), {}),
    ("gaussian_blur", (3,), {}),
    ("gaussian_blur", ([5, 3], [1.5, 0.7]), {}),
]
BYTE_ONLY = [("posterize", (3,), {}), ("equalize", (), {}), ("solarize", (100,), {})]

CLASSES = [
    ("Resize", (8,), {}),
    ("Resize", ((8, 9),), {"max_size": None}),
    ("CenterCrop", (6,), {}),
    ("Pad", (2,), {"fill": 3}),
    ("RandomCrop", (6,), {}),
    ("RandomCrop", ((9, 10),), {"padding": 2, "padding_mode": "reflect"}),
    ("RandomCrop", (20,), {"pad_if_needed": True}),
    ("RandomHorizontalFlip", (), {}),
    ("RandomVerticalFlip", (0.7,), {}),
    ("RandomResizedCrop", (6,), {}),
    ("RandomResizedCrop", ((5, 7),), {"scale": (0.3, 0.9), "ratio": (0.5, 1.5)}),
    ("RandomRotation", (40,), {}),
    ("RandomRotation", ((10, 70),), {"expand": True, "fill": 9}),
    ("RandomAffine", (30,), {"translate": (0.2, 0.3), "scale": (0.7, 1.2), "shear": 8}),
    ("RandomAffine", (0,), {"shear": (1, 5, -3, 4), "fill": 5}),
    ("ColorJitter", (0.4, 0.3, 0.5, 0.2), {}),
    ("ColorJitter", (), {"brightness": (0.5, 0.9), "hue": 0.1}),
    ("Grayscale", (), {}),
    ("RandomGrayscale", (0.6,), {}),
    ("RandomInvert", (), {}),
    ("RandomPosterize", (3,), {}),
    ("RandomSolarize", (100,), {}),
    ("RandomAdjustSharpness", (1.5,), {}),
    ("RandomAutocontrast", (), {}),
    ("RandomEqualize", (), {}),
    ("GaussianBlur", (3,), {}),
    ("FiveCrop", (5,), {}),
    ("TenCrop", ((5, 6),), {"vertical_flip": True}),
]
TENSOR_CLASSES = [
    ("RandomErasing", (), {"p": 0.8}),
    ("RandomErasing", (1.0,), {"value": "random"}),
    ("RandomErasing", (1.0,), {"value": [0.1, 0.2, 0.3]}),
    ("Normalize", ([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]), {}),
]


def plain(value):
    """A result as one numpy array or a list of them, or text."""
    if isinstance(value, (list, tuple)):
        return np.stack([plain(v) for v in value])
    if isinstance(value, Image.Image):
        return np.asarray(value)
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def outcome(run):
    """The result, or the type of the exception."""
    try:
        return plain(run())
    except Exception as e:
        return np.array(type(e).__name__)


def function_results(torch, tv):
    F = tv.transforms.functional
    for i, (name, args, kw) in enumerate(FUNCTIONS + BYTE_ONLY):
        images = [("rgb", rgb()), ("gray", gray()), ("byte", byte(torch)), ("real", real(torch))]
        for kind, img in images[:3] if i >= len(FUNCTIONS) else images:
            yield f"F{i}.{name}.{kind}", outcome(lambda: getattr(F, name)(img, *args, **kw))
    for mode in tv.transforms.InterpolationMode:
        for kind, img in (("rgb", rgb()), ("byte", byte(torch)), ("real", real(torch))):
            yield f"mode.{mode.value}.{kind}", outcome(lambda: F.resize(img, [6, 19], mode))
        if mode.value in ("nearest", "bilinear"):
            for kind, img in (("rgb", rgb()), ("byte", byte(torch)), ("real", real(torch))):
                yield f"turn.{mode.value}.{kind}", outcome(lambda: F.rotate(img, 33, mode, fill=[1.0, 0.5, 0.2]))


def class_results(torch, tv):
    T = tv.transforms
    for i, (name, args, kw) in enumerate(CLASSES + TENSOR_CLASSES):
        t = getattr(T, name)(*args, **kw)
        images = [("rgb", rgb()), ("byte", byte(torch))] if i < len(CLASSES) else [("real", real(torch))]
        for kind, img in images:
            for seed in (0, 1, 2):
                torch.manual_seed(seed)
                value = outcome(lambda: t(img))
                yield f"T{i}.{name}.{kind}.{seed}", value
                yield f"T{i}.{name}.{kind}.{seed}.next", np.array(torch.randint(0, 10000, (1,)).item())
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        flips = [T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0), T.RandomCrop(8)]
        for name, t in (
            ("apply", T.RandomApply(flips, p=0.5)),
            ("choice", T.RandomChoice(flips)),
            ("weighted", T.RandomChoice(flips, p=[0.1, 0.1, 0.8])),
            ("order", T.RandomOrder(flips)),
        ):
            yield f"some.{name}.{seed}", outcome(lambda: t(rgb()))


def conversion_results(torch, tv):
    F = tv.transforms.functional
    pics = {m: rgb().convert(m) for m in ("RGB", "L", "1", "I", "F", "RGBA", "CMYK", "P", "LA")}
    pics["I;16"] = Image.fromarray(pixels(c=1).astype(np.uint16) * 100)
    for mode, pic in pics.items():
        yield f"to_tensor.{mode}", outcome(lambda: F.to_tensor(pic))
        yield f"pil_to_tensor.{mode}", outcome(lambda: F.pil_to_tensor(pic))
    for name, a in (
        ("u8", pixels()),
        ("f32", pixels().astype(np.float32)),
        ("2d", pixels(c=1)),
        ("f64", pixels() / 3.0),
    ):
        yield f"to_tensor.array.{name}", outcome(lambda: F.to_tensor(a))
    for name, x in (
        ("real", real(torch)),
        ("byte", byte(torch)),
        ("one", real(torch)[:1]),
        ("two", byte(torch)[:2]),
        ("flat", byte(torch)[0]),
        ("int", byte(torch)[:1].to(torch.int32)),
        ("short", byte(torch)[:1].to(torch.int16)),
        ("five", torch.zeros(5, 3, 3)),
    ):
        yield f"to_pil.{name}", outcome(lambda: F.to_pil_image(x))
    for a in ("uint8", "int16", "int32", "int64", "float32", "float64"):
        x = real(torch)[0] if a.startswith("f") else byte(torch)[0]
        for b in ("uint8", "int16", "int32", "float32", "float64"):
            y = x.to(getattr(torch, a))
            yield f"convert.{a}.{b}", outcome(lambda: F.convert_image_dtype(y, getattr(torch, b)))


def other_results(torch, tv):
    boxes = torch.from_numpy(np.random.RandomState(1).rand(30, 4).astype(np.float32))
    boxes[:, 2:] += boxes[:, :2]
    scores = torch.from_numpy(np.random.RandomState(2).rand(30).astype(np.float32))
    classes = torch.from_numpy(np.random.RandomState(3).randint(0, 3, 30))
    yield "nms", plain(tv.ops.nms(boxes, scores, 0.3))
    yield "batched_nms", plain(tv.ops.batched_nms(boxes, scores, classes, 0.3))
    yield "box_iou", plain(tv.ops.box_iou(boxes[:6], boxes[4:9]))
    yield "giou", plain(tv.ops.generalized_box_iou(boxes[:6], boxes[4:9]))
    yield "clip", plain(tv.ops.clip_boxes_to_image(boxes, (1, 1)))
    yield "small", plain(tv.ops.remove_small_boxes(boxes, 0.3))
    for a in ("xyxy", "xywh", "cxcywh"):
        for b in ("xyxy", "xywh", "cxcywh"):
            yield f"box.{a}.{b}", plain(tv.ops.box_convert(boxes[:5], a, b))
    x = torch.from_numpy(np.random.RandomState(4).randn(6, 3).astype(np.float32))
    for r in ("none", "mean", "sum"):
        yield f"focal.{r}", plain(tv.ops.sigmoid_focal_loss(x, (x > 0.3).to(x.dtype), reduction=r))
    t = torch.from_numpy(np.random.RandomState(5).rand(5, 1, 4, 3).astype(np.float32))
    for i, kw in enumerate(
        ({}, {"nrow": 2, "normalize": True}, {"scale_each": True, "normalize": True, "pad_value": 0.5}, {"padding": 0})
    ):
        yield f"grid.{i}", plain(tv.utils.make_grid(t, **kw))
    fake = tv.datasets.FakeData(size=4, image_size=(3, 5, 6), num_classes=4, random_offset=2)
    for i in range(2):
        img, target = fake[i]
        yield f"fake.{i}", np.asarray(img)
        yield f"fake.{i}.target", np.array(target)


def reprs(torch, tv):
    T = tv.transforms
    for i, (name, args, kw) in enumerate(CLASSES + TENSOR_CLASSES):
        yield f"T{i}.{name}", repr(getattr(T, name)(*args, **kw))
    some = [T.ToTensor(), T.PILToTensor(), T.ToPILImage(), T.ToPILImage("RGB"), T.Lambda(abs)]
    yield "compose", repr(T.Compose([*some, T.ConvertImageDtype(torch.float32)]))
    yield "apply", repr(T.RandomApply(some))
    yield "choice", repr(T.RandomChoice(some))
    yield "order", repr(T.RandomOrder(some))
    yield "fake", repr(tv.datasets.FakeData(size=4, transform=T.Compose([T.ToTensor(), T.CenterCrop(3)])))


MODELS = ["resnet18", "resnet50", "resnext50_32x4d", "vgg11_bn", "alexnet"]


def model_facts(torch, tv, name):
    """Keys, sums of the parameters, the next random number, output for a fixed input, and the repr's digest."""
    import hashlib

    torch.manual_seed(3)
    model = getattr(tv.models, name)(num_classes=5)
    after = torch.randint(0, 10000, (1,)).item()
    state = model.state_dict()
    model.eval()
    x = torch.from_numpy(np.random.RandomState(0).randn(1, 3, 64, 64).astype(np.float32))
    with torch.no_grad():
        y = model(x)
    keys = hashlib.sha256("\n".join(f"{k} {tuple(v.shape)} {v.dtype}" for k, v in state.items()).encode()).hexdigest()
    first = [k for k in state if k.endswith("weight")]
    picked = {
        k: [state[k].double().sum().item(), state[k].double().abs().sum().item()] for k in (*first[:3], *first[-2:])
    }
    return {
        "keys": keys,
        "count": len(state),
        "sums": picked,
        "next": after,
        "output": y[0].tolist(),
        "repr": hashlib.sha256(repr(model).encode()).hexdigest(),
    }


def pack(arrays):
    """Many small arrays as one block of bytes and an index: a zip entry each would be larger than the arrays."""
    index, blocks, offset = {}, [], 0
    for name, value in arrays.items():
        value = np.asarray(value, order="C")
        index[name] = [value.dtype.str, list(value.shape), offset]
        blocks.append(value.tobytes())
        offset += value.nbytes
    return index, np.frombuffer(b"".join(blocks), np.uint8)


def unpack(index, block):
    """What `pack` packed."""
    out = {}
    for name, (dtype, shape, offset) in index.items():
        count = int(np.prod(shape))
        out[name] = np.frombuffer(block.tobytes(), dtype, count, offset).reshape(shape)
    return out
