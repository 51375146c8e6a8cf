"""Raw arrays in, raw arrays out: host kernels and MindSpore kernels. Knows no tensor, no promotion, no autograd."""
