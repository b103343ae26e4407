"""Labels of the paper that are cited are in the table from labels to the numbers of the PDF."""

import re

import pytest

from docs.build.labels import PAGE, numbers
from docs.build.pages import ROOT

CITED = re.compile(r"\b(?:eq|tab|fig|prop):[A-Za-z0-9_]+")
TABLE = set(re.findall(r"^\| `([^`]+)` \|", (ROOT / PAGE).read_text(), flags=re.M))
FILES = [
    path
    for folder in ("src", "docs", "benchmarks", "reproduction", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md")
] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

SOURCE = r"""
\section{First}
\begin{equation}\label{eq:one} x = \begin{cases} 1 \\ 2 \end{cases} \end{equation}
\begin{align}
\label{eq:two}  % \label{eq:no}
a &= b, \\
c &= d
\end{align}
\begin{align*} x \\ y \end{align*}
\begin{proposition}\label{prop:one} \begin{equation}\label{eq:four} z \end{equation} \end{proposition}
\begin{figure}\caption{x}\label{fig:one}\caption{y}\label{fig:two}\end{figure}
\appendix
\setcounter{equation}{0}
\section{More}
\subsection{Deep.}
\label{deep}
\begin{proposition}\label{prop:two}\end{proposition}
\begin{equation}\label{eq:again} y \end{equation}
\begin{table}\caption{x}\label{tab:one}\end{table}
"""


def test_numbers_are_counted_as_latex_does():
    assert {label: number for label, (number, _) in numbers(SOURCE).items()} == {
        "eq:one": "(1)", "eq:two": "(2)", "prop:one": "Proposition 1.1", "eq:four": "(4)", "fig:one": "Figure 1",
        "fig:two": "Figure 2", "deep": "Section A.1", "prop:two": "Proposition A.1",
        "eq:again": "(1) of the supplement", "tab:one": "Table 1",
    }  # fmt: skip


def test_the_table_has_the_numbers_of_the_pdf():
    text = (ROOT / PAGE).read_text()
    for label, number in (("eq:ucrn", r"\(6\)"), ("prop:3", "Proposition 3.1"), ("tab:worms", "Table 3")):
        assert re.search(rf"`{label}` \| {number} \|", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_label_that_is_cited_is_in_the_table(path):
    assert set(CITED.findall(path.read_text())) <= TABLE | {"eq:x"}
