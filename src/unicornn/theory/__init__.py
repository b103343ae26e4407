"""Section 3 and Appendix C of the paper as functions of a layer: energies, volumes, bounds, gradients.

``unicornn.theory.plots`` has a plot of each.
"""

from unicornn.theory._bounds import Bounds as Bounds
from unicornn.theory._bounds import bounds as bounds
from unicornn.theory._contributions import contributions as contributions
from unicornn.theory._contributions import layers_on_the_shortest_way as layers_on_the_shortest_way
from unicornn.theory._contributions import one_way as one_way
from unicornn.theory._contributions import papers_exponent as papers_exponent
from unicornn.theory._contributions import representation as representation
from unicornn.theory._energy import energy as energy
from unicornn.theory._energy import explicit_euler as explicit_euler
from unicornn.theory._energy import gradient_hamiltonian as gradient_hamiltonian
from unicornn.theory._energy import gradient_orbit as gradient_orbit
from unicornn.theory._energy import hamiltonian as hamiltonian
from unicornn.theory._growth import GradientGrowth as GradientGrowth
from unicornn.theory._growth import gradient_growth as gradient_growth
from unicornn.theory._jacobian import jacobian as jacobian
from unicornn.theory._lyapunov import Lyapunov as Lyapunov
from unicornn.theory._lyapunov import lyapunov_exponent as lyapunov_exponent
from unicornn.theory._orbit import Orbit as Orbit
from unicornn.theory._orbit import orbits as orbits
from unicornn.theory._profile import gradient_profile as gradient_profile
from unicornn.theory._reconstruction import Reconstruction as Reconstruction
from unicornn.theory._reconstruction import reconstruction_error as reconstruction_error
from unicornn.theory._scales import WeightNorms as WeightNorms
