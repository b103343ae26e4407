"""IMDB: words, vocabulary, vectors, padding."""

import lzma
import shutil
import sys
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab.data import Source
from unicornn.lab.tasks import imdb
from unicornn.lab.tasks.imdb import GLOVE, REVIEWS, TASK, tokens
from unicornn.lab.training import resolve
from unicornn.lab.training._evaluate import initial_network
from unicornn.lab.training._trainer import make_optimizer


def read(splits, split):
    """The reviews as lists of vectors' first numbers, and their classes."""
    u, target, lengths = helpers.everything(split)
    return [splits.embedding[u[:n, i], 0].tolist() for i, n in enumerate(lengths)], target.tolist()


def test_load(small_imdb):
    splits = TASK.load(small_imdb, helpers.options(TASK), 0)
    assert [len(split) for split in splits[:3]] == [28, 12, 40]
    written = helpers.texts()
    order = [(text, feeling == "pos") for (_, feeling), some in written.items() for text in some]
    for split in splits[:3]:
        known, classes = read(splits, split)
        for row, words, positive in zip(split.rows, known, classes, strict=True):
            text, feeling = order[row]
            assert positive == feeling
            expected = [helpers.COMMON.index(w) + 1.0 for w in text.split() if w in helpers.COMMON]
            assert words[: len(expected)] == expected
            assert len(words) == len(expected) + 1  # the rare word, or the one of an empty review
    assert splits.test.batch(torch.tensor([23]), -1).u.tolist() == [[imdb.UNK]]


def test_vocabulary_is_of_the_training_part(small_imdb):
    """Rare words of validation and test are unknown, those of training have random vectors."""
    splits = TASK.load(small_imdb, helpers.options(TASK), 0)
    assert 6 in splits.train.rows  # the empty review
    assert len(splits.embedding) == 2 + 40 + 27
    assert not splits.embedding[:2].any()
    for split in splits[:3]:
        u, _, lengths = helpers.everything(split)
        rare = u[lengths - 1, torch.arange(len(split))]
        if split is splits.train:
            assert rare.unique().numel() == 28
            assert float(splits.embedding[rare[rare != imdb.UNK]].std()) == pytest.approx(1, abs=0.1)
        else:
            assert (rare == imdb.UNK).all()


def test_size_of_the_vocabulary(small_imdb, monkeypatch):
    monkeypatch.setattr(imdb, "WORDS", 10)
    splits = TASK.load(small_imdb, helpers.options(TASK), 0)
    assert splits.embedding.shape == (12, 100)
    training = [
        w
        for row in splits.train.rows
        for w in [*helpers.texts()["train", "neg"], *helpers.texts()["train", "pos"]][row].split()
    ]
    counts = {w: training.count(w) for w in helpers.COMMON}
    expected = sorted(helpers.COMMON, key=lambda w: (-counts[w], w))[:10]
    assert splits.embedding[2:, 0].tolist() == [helpers.COMMON.index(w) + 1.0 for w in expected]


def test_seeds(small_imdb):
    first, second = (TASK.load(small_imdb, helpers.options(TASK), seed) for seed in (0, 1))
    np.testing.assert_array_equal(first.valid.rows, second.valid.rows)
    assert torch.equal(first.embedding[2:40], second.embedding[2:40])
    assert not torch.equal(first.embedding, second.embedding)  # words without a vector
    other = TASK.load(small_imdb, helpers.options(TASK, split_seed=1), 0)
    assert not np.array_equal(first.valid.rows, other.valid.rows)


def test_padded(small_imdb):
    honoured = helpers.everything(TASK.load(small_imdb, helpers.options(TASK), 0).test)
    padded = helpers.everything(TASK.load(small_imdb, helpers.options(TASK, lengths="padded"), 0).test)
    assert padded.lengths is None
    assert torch.equal(padded.u, honoured.u)
    assert padded.u.shape[0] == honoured.lengths.max()
    assert ((padded.u == imdb.PAD).sum(0) == len(padded.u) - honoured.lengths).all()


def test_coast(small_imdb):
    plain = TASK.load(small_imdb, helpers.options(TASK), 0).test
    coasting = TASK.load(small_imdb, helpers.options(TASK, coast=7), 0).test
    first, second = helpers.everything(plain), helpers.everything(coasting)
    assert torch.equal(second.lengths, first.lengths + 7)
    assert torch.equal(second.u[:-7], first.u)
    assert (second.u[-7:] == imdb.PAD).all()
    assert torch.equal(coasting.sizes, plain.sizes + 7)
    with pytest.raises(ValueError, match="coast: expected"):
        TASK.load(small_imdb, helpers.options(TASK, coast=-1), 0)


@pytest.mark.parametrize("form", ["tar.gz", "tar.xz"])
def test_archives_are_the_same(small_imdb, tmp_path, form):
    """In another order, and with names of the original kind."""
    source = Source(tmp_path / "packed", tmp_path / "cache2")
    (source.data / "imdb").mkdir(parents=True)
    (source.data / "glove").mkdir()
    tree = small_imdb.data / "imdb/aclImdb"
    name = "aclImdb_v1.tar.gz" if form == "tar.gz" else "aclImdb.tar.xz"
    with tarfile.open(source.data / "imdb" / name, f"w:{form[4:]}") as archive:
        for file in sorted(tree.rglob("*.txt"), reverse=True):
            archive.add(file, file.relative_to(tree.parent).as_posix())
    glove = (small_imdb.data / "glove/glove.6B.100d.txt").read_bytes()
    if form == "tar.gz":
        with zipfile.ZipFile(source.data / "glove/glove.6B.zip", "w") as archive:
            archive.writestr("glove.6B.50d.txt", b"the 1 2 3\n")
            archive.writestr("glove.6B.100d.txt", glove)
    else:
        (source.data / "glove/glove.6B.100d.txt.xz").write_bytes(lzma.compress(glove))
    packed, plain = (TASK.load(s, helpers.options(TASK), 0) for s in (source, small_imdb))
    assert torch.equal(packed.embedding, plain.embedding)
    for split, other in zip(packed[:3], plain[:3], strict=True):
        assert torch.equal(helpers.everything(split).u, helpers.everything(other).u)


def test_corrupt(small_imdb):
    def fails(message):
        with pytest.raises(CorruptData, match=message):
            TASK.load(small_imdb, helpers.options(TASK), 0)

    folder = small_imdb.data / "imdb/aclImdb/test/neg"
    text = (folder / "7_2.txt").read_bytes()
    (folder / "7_2.txt").unlink()
    fails("reviews 0, 1, 2, ... in test/neg, found 19, the last is 19")
    (folder / "7_2.txt").write_bytes(b"\xff\xfe")
    fails("expected a UTF-8 text.*7_2.txt")
    (folder / "7_2.txt").write_bytes(text)
    shutil.rmtree(folder)
    fails("test/neg, found 0, the last is missing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("word0 1 2 3\n", "a word and 100 numbers in line 1, got 3"),
        ("the " + "1 " * 99 + "1\n", "found none of those in the reviews"),
        ("word0 " + "1 " * 99 + "x\n", "line 1"),
        ("", "found none"),
    ],
)
def test_corrupt_vectors(small_imdb, content, message):
    (small_imdb.data / "glove/glove.6B.100d.txt").write_text(content)
    with pytest.raises(CorruptData, match=message):
        TASK.load(small_imdb, helpers.options(TASK), 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't, can't, won't!", "i do n't , ca n't , wo n't !"),
        ("It's Bob's; they're we've I'd I'll I'm", "it 's bob 's ; they 're we 've i 'd i 'll i 'm"),
        ("a<br /><br />b", "a b"),
        ("the U.S. in 1,000.50 well-known ways...", "the u.s. in 1,000.50 well - known ways ..."),
        ("'quoted' (10/10) -- café_naïve", "' quoted ' ( 10 / 10 ) -- café _ naïve"),
        ("isn’t", "is n't"),
        ("", ""),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected.split()


@given(st.text(alphabet=st.characters(codec="utf-8", max_codepoint=0x2FF), max_size=40))
def test_tokens_lose_no_character(text):
    text = text.replace("<br />", "")
    assert "".join(tokens(text)) == "".join(text.lower().split())


def test_spacy_tokens_keep_case_and_marks():
    pytest.importorskip("spacy")
    split, version = imdb.spacy_tokens()
    assert split("It isn't BAD.<br /><br />Really.") == ["It", "is", "n't", "BAD.<br", "/><br", "/>Really", "."]
    assert version.startswith("spacy ")


def test_each_tokeniser_has_its_own_cache(small_imdb):
    pytest.importorskip("spacy")
    folder = small_imdb.data / "imdb/aclImdb/train/neg"
    (folder / "0_2.txt").write_text("word0 Word0 WORD0 Word1")
    own = TASK.load(small_imdb, helpers.options(TASK), 0)
    theirs = TASK.load(small_imdb, helpers.options(TASK, tokens="spacy"), 0)
    assert 0 in own.train.rows
    marks = set(imdb.spacy_tokens()[0]("<br /><br />"))  # the empty review's
    assert len(theirs.embedding) == len(own.embedding) + 3 + len(marks)


def test_spacy_missing(small_imdb, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"tokens: expected spaCy.*pip install spacy"):
        TASK.load(small_imdb, helpers.options(TASK, tokens="spacy"), 0)


def test_variant_authors():
    config = resolve(TASK, variant="authors")
    own = {"lengths": "padded", "tokens": "spacy", "coast": 0, "embedding_dropout": 0.65, "split_seed": 0}
    assert config.task_options == own
    training = config.training
    assert (training.lr, training.batch_size, training.eval_batch_size, training.epochs) == (1.64e-4, 32, 32, 50)


def test_words_have_a_dropout_a_rate_and_an_epsilon_of_their_own(small_imdb):
    splits = TASK.load(small_imdb, helpers.options(TASK), 0)
    settings = {"embedding_dropout": 0.3, "lr": 0.01, "layers_rate": 0.5, "words_rate": 4, "words_eps": 1e-4}
    config = resolve(TASK, settings=settings)
    network = initial_network(TASK, config, splits.embedding)
    assert network.dropout.p == 0.3
    names = {p: name for name, p in network.named_parameters()}
    for group in make_optimizer(network, config).param_groups:
        for p in group["params"]:
            words, layers = names[p].startswith("embedding."), names[p].startswith("rnn.")
            assert group["share"] == (4 if words else 0.5 if layers else 1)
            assert group["eps"] == (1e-4 if words else 1e-8)
    with pytest.raises(ValueError, match=r"embedding_dropout: expected a number in \[0, 1\)"):
        initial_network(TASK, resolve(TASK, settings={"embedding_dropout": 1.0}), splits.embedding)


@pytest.mark.slow
def test_real(real):
    helpers.needs(real, REVIEWS, GLOVE)
    splits = TASK.load(real, helpers.options(TASK), 0)
    assert [len(split) for split in splits[:3]] == [17_500, 7_500, 25_000]
    assert splits.embedding.shape == (25_002, 100)
    u, target, lengths = helpers.everything(splits.test)
    assert target.bincount().tolist() == [12_500, 12_500]
    assert int(lengths.min()) >= 1
    within = torch.arange(len(u))[:, None] < lengths
    assert float((u[within] == imdb.UNK).float().mean()) < 0.03
    with_vector = (splits.embedding[2:].std(1) < 0.85).float().mean()  # GloVe's are smaller than N(0, 1)
    assert float(with_vector) > 0.95
