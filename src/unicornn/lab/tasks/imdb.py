"""Sentiment of film reviews (IMDB): 25,000 words with GloVe vectors, trained along with the network.

The tokeniser is our own: lower case, as GloVe is; punctuation split off, contractions as in GloVe (do n't, it 's),
<br /> dropped. With tokens=spacy it is the authors': spaCy's English one, which keeps capital letters and <br />.
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

from unicornn import _checks as checks
from unicornn.errors import CorruptData
from unicornn.lab.data._archives import members, opened
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._splits import held_out
from unicornn.lab.tasks._base import Batch, Quoted, Splits, Task, Training
from unicornn.lab.tasks._rows import splits

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


def tokens(text: str) -> list[str]:
    """The words of a text.

    Example:
        >>> from unicornn.lab.tasks.imdb import tokens
        >>> tokens("It isn't BAD...<br /><br />7.5/10")
        ['it', 'is', "n't", 'bad', '...', '7.5', '/', '10']
    """
    return _TOKEN.findall(text.replace("<br />", " ").replace("’", "'").lower())


def spacy_tokens() -> tuple[Callable[[str], list[str]], str]:
    """The authors' tokeniser, and what its words depend on: spaCy's version.

    Example:
        >>> from unicornn.lab.tasks.imdb import spacy_tokens
        >>> split, version = spacy_tokens()  # doctest: +SKIP
        >>> split("It isn't BAD.<br /><br />Really.")  # doctest: +SKIP
        ['It', 'is', "n't", 'BAD.<br', '/><br', '/>Really', '.']
    """
    try:
        import spacy
    except ImportError as error:
        raise ImportError("tokens: expected spaCy to be installed for 'spacy': pip install spacy") from error
    tokenizer = spacy.blank("en").tokenizer
    return lambda text: [token.text for token in tokenizer(text)], f"spacy {version('spacy')}"


@dataclass(frozen=True)
class Reviews:
    """A Split of texts: each batch is padded to the longest in it.

    Args:
        words: all reviews one after another, in numbers.
        offsets: (n + 1,): where each begins, and where the last one ends.
        numbers: number of a word to that in the vocabulary.
        target: (n,).
        padded: whether the padding is handed to the network as data, as the authors did: no lengths.
        coast: steps of silence after the end of every review, which count as part of it. What the last words did to an
            oscillator's velocity has time to move it, as in the authors' padding, but whatever the batch.

    Example:
        >>> import numpy as np, torch
        >>> from unicornn.lab.tasks.imdb import Reviews
        >>> split = Reviews(np.arange(7), np.array([0, 3, 7]), np.arange(7) + 2, torch.tensor([0, 1]), padded=False)
        >>> u, target, lengths = split.batch(torch.tensor([0, 1]), draw=0)
        >>> u.T, lengths
        (tensor([[2, 3, 4, 0],
                [5, 6, 7, 8]]), tensor([3, 4]))
    """

    words: np.ndarray
    offsets: np.ndarray
    numbers: np.ndarray
    target: Tensor
    padded: bool
    coast: int = 0

    def __len__(self) -> int:
        return len(self.target)

    @property
    def sizes(self) -> Tensor | None:
        """The reviews' lengths, (n,): reviews of similar length make up a batch, unless their padding is data."""
        return None if self.padded else torch.from_numpy(np.diff(self.offsets) + self.coast)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        chosen = indices.numpy()
        begin, end = self.offsets[chosen], self.offsets[chosen + 1]
        u = np.full((int((end - begin).max()) + self.coast, len(chosen)), PAD, np.int64)
        for i, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            u[: last - first, i] = self.numbers[self.words[first:last]]
        lengths = None if self.padded else torch.from_numpy(end - begin + self.coast)
        return Batch(torch.from_numpy(u), self.target[indices], lengths)


def _texts(path: Path) -> list[list[str]]:
    """The reviews of each of FOLDERS, in the order of their numbers."""
    found: dict[tuple[str, str], dict[int, str]] = {folder: {} for folder in FOLDERS}
    for name, content in members(path, *(f"{half}/{feeling}/*_*.txt" for half, feeling in FOLDERS)):
        half, feeling, file = name.split("/")[-3:]
        try:
            found[half, feeling][int(file.partition("_")[0])] = content.decode()
        except ValueError as error:
            raise CorruptData(f"{path}: expected a UTF-8 text, NUMBER_RATING.txt, in {name}: {error}") from error
    for (half, feeling), texts in found.items():
        if not texts or max(texts) != len(texts) - 1:
            raise CorruptData(
                f"{path}: expected reviews 0, 1, 2, ... in {half}/{feeling}, found {len(texts)}, the last is "
                f"{max(texts, default='missing')}"
            )
    return [[found[folder][i] for i in range(len(found[folder]))] for folder in FOLDERS]


def _vectors(path: Path, wanted: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """GloVe's vectors (found, 100), and the number of the word (found,) that each belongs to."""
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
        raise CorruptData(f"{path}: expected vectors of English words, found none of those in the reviews")
    return np.stack(vectors), np.array(numbers)


def _parse(reviews: Path, glove: Path, tokens: Callable[[str], list[str]]) -> dict[str, np.ndarray]:
    """All reviews in numbers, training first. A word that no training review has is 0; the others are in alphabetical
    order."""
    number, words, offsets = {"": 0}, array("i"), [0]
    texts = _texts(reviews)
    for (half, _), folder in zip(FOLDERS, texts, strict=True):
        for text in folder:
            found = tokens(text) or [""]  # no review is empty: one unknown word at least
            if half == "train":
                words.extend([number.setdefault(word, len(number)) for word in found])
            else:
                words.extend([number.get(word, 0) for word in found])
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


def vocabulary(words: np.ndarray, size: int) -> np.ndarray:
    """The most frequent words, each by its number, which is positive; of two equally frequent ones the lower number."""
    counts = np.bincount(words)
    counts[0] = 0
    return np.argsort(-counts, kind="stable")[: min(size, np.count_nonzero(counts))]


def load(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    paths = reviews, glove = source.find(REVIEWS, GLOVE)
    split, words_of = spacy_tokens() if options["tokens"] == "spacy" else (tokens, _TOKEN.pattern)
    arrays = source.cached("imdb", paths, words_of, lambda: _parse(reviews, glove, split))
    words, offsets, n = arrays["words"], np.array(arrays["offsets"]), int(arrays["training"])
    train, valid = held_out(n, (n * 3 // 10,), options["split_seed"])

    of_training = np.repeat(np.isin(np.arange(n), train), np.diff(offsets[: n + 1]))
    known = vocabulary(words[: offsets[n]][of_training], WORDS)
    numbers = np.full(words.max() + 1, UNK)
    numbers[known] = SPECIAL + np.arange(len(known))

    embedding = torch.randn(SPECIAL + len(known), D, generator=torch.Generator().manual_seed(seed))
    rows = numbers[arrays["numbers"]]
    embedding[rows[rows != UNK]] = torch.from_numpy(arrays["vectors"][rows != UNK])
    embedding[[PAD, UNK]] = 0.0
    target = torch.from_numpy(arrays["labels"].astype("int64"))
    coast = checks.integer("coast", options["coast"], 0)
    everything = Reviews(words, offsets, numbers, target, options["lengths"] == "padded", coast)
    return splits(everything, [train, valid, np.arange(n, len(everything))], embedding)


TASK = Task(
    name="imdb",
    title="Sentiment of film reviews (IMDB)",
    kind="classify",
    load=load,
    d=D,
    outputs=2,
    size="17,500 / 7,500 / 25,000 reviews, d = 100, 25,000 words",
    models={
        "unicornn": {"hidden_size": 128, "num_layers": 2, "dt": (6.6e-3, 2.05e-1), "alpha": 0.0, "dropout": 0.61},
        "lstm": {"hidden_size": 128},
        "skip-lstm": {"hidden_size": 128},
        "gru": {"hidden_size": 128},
        "relu-gru": {"hidden_size": 128},
        "skip-gru": {"hidden_size": 128},
        "cornn": {"hidden_size": 128},
    },
    training=Training(lr=1.67e-4, batch_size=32, epochs=50),
    options={
        "lengths": ("honoured", "padded"),
        "tokens": ("own", "spacy"),
        "coast": (0,),
        "embedding_dropout": (0.65,),
        "split_seed": (0,),
    },
    variants={"authors": {"lr": 1.64e-4, "eval_batch_size": 32, "lengths": "padded", "tokens": "spacy"}},
    paper=(
        Quoted("LSTM", 0.868, units=128, parameters=220_000, source="Table 5"),
        Quoted("skip LSTM", 0.866, units=128, parameters=220_000, source="Table 5"),
        Quoted("GRU", 0.852, units=128, parameters=99_000, source="Table 5"),
        Quoted("ReLU GRU", 0.848, units=128, parameters=99_000, source="Table 5"),
        Quoted("skip GRU", 0.866, units=128, parameters=165_000, source="Table 5"),
        Quoted("coRNN", 0.874, units=128, parameters=46_000, source="Table 5"),
        Quoted("UnICORNN (L=2)", 0.884, units=128, parameters=30_000, source="Table 5"),
        Quoted("UnICORNN (L=2)", 0.881, 0.0019, units=128, parameters=30_000, source="Table 8"),
    ),
    files=[REVIEWS, GLOVE],
    text=True,
    protocol="17.5k/7.5k/25k reviews, one random split for all seeds. The 25,000 most frequent words of the 17.5k, "
    "and padding and unknown, whose vectors are zero; words without a GloVe vector start from N(0, 1). tokens=own: our "
    "tokeniser, lower case. tokens=spacy: the authors', case kept, so that words with a capital letter have no GloVe "
    "vector. lengths=honoured: batches of reviews of similar length, each followed by `coast` steps of silence. "
    "lengths=padded, as the authors': random batches, whose padding the network reads too, so that the metric depends "
    "on the batches. The variant `authors` has both, and batches of 32 in validation and test too. Table 5 has the "
    "best run of each model, Table 8 mean and deviation of 10.",
)
