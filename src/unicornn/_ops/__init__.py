"""Back-ends: the reference loop, its hand-derived adjoint, the CPU kernels, and the stack that carries them."""
