"""The layer's computations: the reference, the torch.library ops, and a package of kernels per back-end."""
