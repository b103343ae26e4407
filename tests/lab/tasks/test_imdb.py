"""IMDB: tokens, vocabulary, vectors, padding."""

import shutil

import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab.tasks import imdb
from unicornn.lab.tasks.imdb import TASK, _tokenise
from unicornn.lab.training import resolve
from unicornn.lab.training._evaluate import initial_network
from unicornn.lab.training._trainer import make_optimizer


def test_words_and_classes(small_imdb):
    splits = helpers.load(TASK, small_imdb)
    assert helpers.sizes(splits) == [28, 12, 40]
    written = [(text, feeling == "pos") for (_, feeling), some in helpers.texts().items() for text in some]
    for split in splits[:3]:
        u, target, lengths = helpers.everything(split)
        for i, row in enumerate(split.rows):
            text, positive = written[row]
            assert bool(target[i]) == positive
            words = splits.embedding[u[: lengths[i], i], 0].tolist()
            expected = [helpers.COMMON.index(w) + 1.0 for w in text.split() if w in helpers.COMMON]
            assert words[: len(expected)] == expected
            assert len(words) == len(expected) + 1  # the rare word, or the unknown one of an empty review
    assert splits.test.batch(torch.tensor([23]), -1).u.tolist() == [[imdb.UNK]]


def test_the_vocabulary_is_that_of_the_training_set(small_imdb):
    """Rare words of validation and test are unknown, those of training have random vectors."""
    splits = helpers.load(TASK, small_imdb)
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


def test_padding_may_be_part_of_the_input(small_imdb):
    honoured, padded = (helpers.load(TASK, small_imdb, lengths=how).test for how in ("honoured", "padded"))
    assert torch.equal(honoured.sizes, helpers.everything(honoured).lengths)
    assert padded.sizes is None
    honoured, padded = helpers.everything(honoured), helpers.everything(padded)
    assert padded.lengths is None
    assert torch.equal(padded.u, honoured.u)
    assert padded.u.shape[0] == honoured.lengths.max()
    assert ((padded.u == imdb.PAD).sum(0) == len(padded.u) - honoured.lengths).all()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "test/neg, got 19, the last is 19"),
        (lambda path: path.write_bytes(b"\xff\xfe"), r"7_2\.txt"),
        (lambda path: shutil.rmtree(path.parent), "test/neg, got 0, the last is missing"),
    ],
)
def test_damaged_reviews(small_imdb, damage, message):
    damage(small_imdb.data / "imdb/aclImdb/test/neg/7_2.txt")
    with pytest.raises(CorruptData, match=message):
        helpers.load(TASK, small_imdb)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't, can't, won't!", "i do n't , ca n't , wo n't !"),
        ("It's Bob's; they're we've I'd I'll I'm", "it 's bob 's ; they 're we 've i 'd i 'll i 'm"),
        ("a<br /><br />b", "a b"),
        ("the U.S. in 1,000.50 well-known ways...", "the u.s. in 1,000.50 well - known ways ..."),
        ("'quoted' (10/10) -- café_naïve", "' quoted ' ( 10 / 10 ) -- café _ naïve"),
        ("isn’t BAD...<br /><br />7.5/10", "is n't bad ... 7.5 / 10"),
        ("", ""),
    ],
)
def test_tokens(text, expected):
    assert _tokenise(text) == expected.split()


def test_spacy_keeps_case_and_marks_and_has_a_separate_cache(small_imdb):
    pytest.importorskip("spacy")
    split, version = imdb._spacy_tokeniser()
    assert split("It isn't BAD.<br /><br />Really.") == ["It", "is", "n't", "BAD.<br", "/><br", "/>Really", "."]
    assert version.startswith("spacy ")
    (small_imdb.data / "imdb/aclImdb/train/neg/0_2.txt").write_text("word0 Word0 WORD0 Word1")
    ours, theirs = (helpers.load(TASK, small_imdb, tokens=tokens) for tokens in ("own", "spacy"))
    assert 0 in ours.train.rows
    marks = set(split("<br /><br />"))  # of the empty review
    assert len(theirs.embedding) == len(ours.embedding) + 3 + len(marks)


def test_word_vectors_have_a_separate_dropout_rate_and_epsilon(small_imdb):
    splits = helpers.load(TASK, small_imdb)
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
