"""What writes the generated parts of the pages, and their plots, from results/ and from the code: ``make docs``.

A module per page has ``PAGE``, its file below the top of the project, ``blocks()``, the lines that go between
<!-- name --> and <!-- /name -->, and ``plots()``, the plots by the names of their files below docs/figures. Nothing
is measured here.
"""
