"""The version of the package, read by the build and by ``mindtorch.__version__``."""

VERSION = "1.0.0.dev0"
