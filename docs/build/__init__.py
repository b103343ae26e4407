"""Generated parts of the documentation, from results/ and from the code: ``python -m docs.build``, or ``make docs``.

``pages`` has the registry of parts and the tables, ``site`` the Sphinx extension; the other modules build the parts of
one page or of a few related pages. Figures are drawn by ``unicornn.theory.plots.Plot``. Nothing is measured here.
"""
