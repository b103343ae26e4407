"""Section 3 and Appendix C of the paper as functions of a layer: energies, volumes, bounds, gradients.

``unicornn.theory.figures`` draws them.
"""

from unicornn.theory.bounds import Bounds as Bounds
from unicornn.theory.bounds import bounds as bounds
from unicornn.theory.contributions import contributions as contributions
from unicornn.theory.contributions import layers_on_the_shortest_way as layers_on_the_shortest_way
from unicornn.theory.contributions import one_way as one_way
from unicornn.theory.contributions import papers_exponent as papers_exponent
from unicornn.theory.contributions import representation as representation
from unicornn.theory.energy import energy as energy
from unicornn.theory.energy import explicit_euler as explicit_euler
from unicornn.theory.energy import gradient_hamiltonian as gradient_hamiltonian
from unicornn.theory.energy import gradient_orbit as gradient_orbit
from unicornn.theory.energy import hamiltonian as hamiltonian
from unicornn.theory.jacobian import jacobian as jacobian
from unicornn.theory.lyapunov import Lyapunov as Lyapunov
from unicornn.theory.lyapunov import lyapunov_exponent as lyapunov_exponent
from unicornn.theory.orbit import Orbit as Orbit
from unicornn.theory.orbit import orbits as orbits
from unicornn.theory.profile import gradient_profile as gradient_profile
from unicornn.theory.reconstruction import Reconstruction as Reconstruction
from unicornn.theory.reconstruction import reconstruction_error as reconstruction_error
from unicornn.theory.scales import WeightNorms as WeightNorms
