"""Data sets read from local files. Nothing is ever downloaded."""

from .cifar import CIFAR10 as CIFAR10
from .cifar import CIFAR100 as CIFAR100
from .fakedata import FakeData as FakeData
from .folder import DatasetFolder as DatasetFolder
from .folder import ImageFolder as ImageFolder
from .mnist import KMNIST as KMNIST
from .mnist import MNIST as MNIST
from .mnist import FashionMNIST as FashionMNIST
from .vision import VisionDataset as VisionDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "DatasetFolder",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "VisionDataset",
]
