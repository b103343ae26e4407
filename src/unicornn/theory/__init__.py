"""Section 3 and Appendix C of the paper as functions of a layer; ``unicornn.theory.plots`` draws them."""

from unicornn.theory._bounds import Bounds, bounds
from unicornn.theory._contributions import contributions
from unicornn.theory._growth import GradientGrowth, gradient_growth
from unicornn.theory._modules import gradient_profile, lyapunov_exponent
from unicornn.theory._orbit import Orbit, hamiltonian, jacobian, orbits
from unicornn.theory._reconstruction import reconstruction_error

__all__ = [
    "Bounds",  # result of bounds
    "GradientGrowth",  # result of gradient_growth
    "Orbit",  # states of one layer along a run, with their energy and Jacobian
    "bounds",  # bounds on states and gradients, Prop. C.1 and 3.1, and how far their proofs reach
    "contributions",  # contribution of each step to the gradient, Prop. 3.2 and C.3 to C.5
    "gradient_growth",  # growth of the gradient along very long sequences, and the length at which float32 overflows
    "gradient_profile",  # size of the gradient at each step of the input, for any recurrent module
    "hamiltonian",  # energy of every layer, Eq. (4)
    "jacobian",  # Jacobian of a step, Suppl. Eq. (21), with determinant 1
    "lyapunov_exponent",  # largest Lyapunov exponent of any recurrent module
    "orbits",  # states of every layer along a run
    "reconstruction_error",  # error of inversion in plain floating point, compared with the exact inverse
]
