"""In a real browser: an empty log, all plots, no horizontal scrolling on a laptop or a phone."""

from tests.browser import measured_in_frames
from tests.lab.report.helpers import MEASURE


def test_the_page_is_complete_and_fits(everything, tmp_path):
    for measured in measured_in_frames(everything, tmp_path, MEASURE):
        assert measured["beyond"] == 0
        assert measured["images"] == measured["shown"] >= 20
        assert (measured["sections"], measured["scripts"]) == (6, 0)
        for text in ("97.2 ± 0.4 %", "<script>alert('x')</script>", "unicornn train regress --seed 2"):
            assert text in measured["text"]
