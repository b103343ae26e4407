"""In a real browser: an empty log, all plots, no horizontal scrolling on a laptop or a phone."""

import pytest

from tests.browser import complaints
from tests.lab.report.helpers import WIDTHS, measured_in_frames


@pytest.fixture(scope="module")
def browsed(everything, tmp_path_factory):
    return measured_in_frames(everything, tmp_path_factory.mktemp("browser"))


def test_nothing_is_logged(browsed):
    assert not complaints(browsed[1])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_complete_and_fits(browsed, width):
    measured = browsed[0][width]
    assert width - 20 <= measured["width"] <= width
    assert measured["needed"] <= measured["width"]
    assert measured["beyond"] == 0
    assert measured["images"] == measured["shown"] >= 20
    assert (measured["sections"], measured["scripts"]) == (6, 0)
    for text in ("97.2 ± 0.4 %", "<script>alert('x')</script>", "unicornn train regress --seed 2"):
        assert text in measured["text"]
