"""Sentiment of film reviews (IMDB): 25,000 words with GloVe vectors, which are trained with the network.

The tokeniser is our own: lower case and contractions as in GloVe (do n't, it 's), punctuation split off, <br />
dropped. With tokens=spacy it is the authors': spaCy's English one, which keeps capital letters and <br />.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.errors import CorruptData
from unicornn.lab.data._archives import members, opened
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._splits import random_split
from unicornn.lab.tasks._base import Batch, Number, Splits, Task, Training, published
from unicornn.lab.tasks._views import Slices, split_rows

WORDS, D = 25_000, 100
PAD, UNK, SPECIAL = 0, 1, 2

REVIEWS = File(
    "imdb/aclImdb_v1.tar.gz",
    url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    hash="md5:7c2ac02c03563afcf9b574c7e56c153a",
    also=("imdb/aclImdb", "imdb/aclImdb.tar.xz"),
)
GLOVE = File(
    "glove/glove.6B.zip",
    url="https://nlp.stanford.edu/data/glove.6B.zip",
    hash="sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    also=("glove/glove.6B.100d.txt", "glove/glove.6B.100d.txt.xz", "glove/glove.6B.100d.trimmed.txt.xz"),
)
FOLDERS = [("train", "neg"), ("train", "pos"), ("test", "neg"), ("test", "pos")]

_TOKEN = re.compile(
    r"n't\b|'(?:s|m|d|re|ve|ll)\b"  # the second half of a contraction,
    r"|(?:[a-z]\.){2,}|\d+(?:[.,:]\d+)*"  # u.s., 7.5,
    r"|[^\W_]+?(?=n't\b)|[^\W_]+"  # words, without an n't at their end,
    r"|\.{2,}|--+|[^\w\s]|_"  # and punctuation
)


def _tokenise(text: str) -> list[str]:
    """The words of a text."""
    return _TOKEN.findall(text.replace("<br />", " ").replace("’", "'").lower())


def _spacy_tokeniser() -> tuple[Callable[[str], list[str]], str]:
    """The authors' tokeniser, and the version of spaCy, on which its words depend."""
    try:
        import spacy
    except ImportError as error:
        raise ImportError("tokens: expected spaCy to be installed for 'spacy': pip install spacy") from error
    tokenizer = spacy.blank("en").tokenizer
    return lambda text: [token.text for token in tokenizer(text)], f"spacy {version('spacy')}"


@dataclass(frozen=True)
class _Reviews(Slices):
    """A Split of texts, for batches of similar length; each batch is padded to the longest text in it.

    With ``padded``, padding is part of the input, as for the authors: batches are random and have no lengths.
    """

    padded: bool = False

    @property
    def sizes(self) -> Tensor | None:
        """Lengths of the reviews (n,); None with ``padded``."""
        return None if self.padded else torch.from_numpy(self.lengths)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        batch = super().batch(indices, draw)
        return batch._replace(lengths=None) if self.padded else batch


def _texts(path: Path) -> list[list[str]]:
    """The reviews of each of FOLDERS, in the order of their numbers."""
    texts: dict[tuple[str, str], dict[int, str]] = {folder: {} for folder in FOLDERS}
    for name, content in members(path, *(f"{half}/{feeling}/*_*.txt" for half, feeling in FOLDERS)):
        half, feeling, file = name.split("/")[-3:]
        try:
            texts[half, feeling][int(file.partition("_")[0])] = content.decode()
        except ValueError as error:
            raise CorruptData(f"{path}: expected a UTF-8 text, NUMBER_RATING.txt, in {name}: {error}") from error
    for (half, feeling), numbered in texts.items():
        if not numbered or max(numbered) != len(numbered) - 1:
            last = max(numbered, default="missing")
            raise CorruptData(
                f"{path}: expected reviews 0, 1, 2, ... in {half}/{feeling}, got {len(numbered)}, the last is {last}"
            )
    return [[texts[folder][i] for i in range(len(texts[folder]))] for folder in FOLDERS]


def _vectors(path: Path, wanted: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """GloVe's vectors (k, 100) of the wanted words, and the numbers (k,) of these words."""
    vectors, numbers = [], []
    with opened(path, f"glove.6B.{D}d.txt") as file:
        for n, line in enumerate(file, 1):
            word, *values = line.split(b" ")
            number = wanted.get(word.decode(errors="replace"))
            if len(values) != D:
                raise CorruptData(f"{path}: expected a word and {D} numbers in line {n}, got {len(values)}")
            if number is not None:
                try:
                    vectors.append(np.array(values, np.float32))
                except ValueError as error:
                    raise CorruptData(f"{path}: expected a word and {D} numbers in line {n}: {error}") from error
                numbers.append(number)
    if not vectors:
        raise CorruptData(f"{path}: expected vectors of English words, got none of the reviews' words")
    return np.stack(vectors), np.array(numbers)


def _parse(reviews: Path, glove: Path, tokenise: Callable[[str], list[str]]) -> dict[str, np.ndarray]:
    """All reviews as word numbers, training first. Words are numbered alphabetically; those that occur in no training
    review are 0."""
    number, words, offsets = {"": 0}, array("i"), [0]
    texts = _texts(reviews)
    for (half, _), folder in zip(FOLDERS, texts, strict=True):
        for text in folder:
            tokens = tokenise(text) or [""]  # an empty review becomes one unknown word
            if half == "train":
                words.extend([number.setdefault(word, len(number)) for word in tokens])
            else:
                words.extend([number.get(word, 0) for word in tokens])
            offsets.append(len(words))
    rank = np.empty(len(number), np.int32)
    for i, word in enumerate(sorted(number)):
        rank[number[word]] = number[word] = i
    vectors, numbers = _vectors(glove, number)
    return {
        "words": rank[np.array(words)],
        "offsets": np.array(offsets),
        "labels": np.concatenate([np.full(len(folder), i % 2) for i, folder in enumerate(texts)]),
        "training": np.array(len(texts[0]) + len(texts[1])),
        "vectors": vectors,
        "numbers": numbers,
    }


def _most_frequent(words: np.ndarray, size: int) -> np.ndarray:
    """The most frequent positive word numbers, at most ``size``; the lower number first if two are equally frequent."""
    counts = np.bincount(words)
    counts[0] = 0
    return np.argsort(-counts, kind="stable")[: min(size, np.count_nonzero(counts))]


def _load_imdb(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    paths = reviews, glove = source.find(REVIEWS, GLOVE)
    tokeniser, settings = _spacy_tokeniser() if options["tokens"] == "spacy" else (_tokenise, _TOKEN.pattern)
    arrays = source.cached("imdb", paths, settings, lambda: _parse(reviews, glove, tokeniser))
    words, offsets, n = arrays["words"], np.array(arrays["offsets"]), int(arrays["training"])
    train, valid = random_split(n, (n * 3 // 10,), options["split_seed"])

    in_training = np.repeat(np.isin(np.arange(n), train), np.diff(offsets[: n + 1]))
    vocabulary = _most_frequent(words[: offsets[n]][in_training], WORDS)
    numbers = np.full(words.max() + 1, UNK, np.int32)
    numbers[vocabulary] = SPECIAL + np.arange(len(vocabulary))

    embedding = torch.randn(SPECIAL + len(vocabulary), D, generator=torch.Generator().manual_seed(seed))
    rows = numbers[arrays["numbers"]]
    embedding[rows[rows != UNK]] = torch.from_numpy(arrays["vectors"][rows != UNK])
    embedding[[PAD, UNK]] = 0.0
    target = torch.from_numpy(arrays["labels"].astype("int64"))
    padded = options["lengths"] == "padded"
    split = _Reviews(numbers[words], offsets[:-1], np.diff(offsets), target, padded=padded)
    return split_rows(split, [train, valid, np.arange(n, len(split))], embedding)


TASK = Task(
    name="imdb",
    title="Sentiment of film reviews (IMDB)",
    kind="classify",
    load=_load_imdb,
    d=D,
    outputs=2,
    size="17,500 / 7,500 / 25,000 reviews, d = 100, 25,000 words",
    models={
        "unicornn": {"hidden_size": 128, "num_layers": 2, "dt": (6.6e-3, 2.05e-1), "alpha": 0.0, "dropout": 0.61},
        **{name: {"hidden_size": 128} for name in ("lstm", "skip-lstm", "gru", "relu-gru", "skip-gru", "cornn")},
    },
    training=Training(lr=1.67e-4, batch_size=32, epochs=50),
    options={
        "lengths": ("honoured", "padded"),
        "tokens": ("own", "spacy"),
        "embedding_dropout": Number(0.65, below=1),
        "split_seed": Number(0),
    },
    variants={"authors": {"lr": 1.64e-4, "eval_batch_size": 32, "lengths": "padded", "tokens": "spacy"}},
    paper=published("imdb"),
    files=[REVIEWS, GLOVE],
    text=True,
    protocol="17.5k/7.5k/25k reviews, one random split for all seeds. The vocabulary is the 25,000 most frequent "
    "words of the 17.5k, plus padding and unknown, whose vectors are zero; words without a GloVe vector start from "
    "N(0, 1). tokens=own: our tokeniser, lower case. tokens=spacy: the authors', which keeps case, so that "
    "capitalised words have no GloVe vector. lengths=honoured: batches of reviews of similar length. lengths=padded, "
    "the authors' way: random batches whose padding the network reads too, so that the metric depends on the batches. "
    "The variant `authors` has both, and batches of 32 in validation and test. Table 5 has the best run of each "
    "model, Table 8 mean and deviation of 10 runs.",
)
