"""The recurrent networks that UnICORNN is compared with, all with its contract, one file each.

Example:
    >>> import torch
    >>> from unicornn.baselines import MODELS
    >>> baseline = MODELS["gru"](3, 16)
    >>> last, state = baseline(torch.randn(50, 4, 3), output="last")
    >>> last.shape
    torch.Size([4, 16])
"""

from torch import nn

from unicornn.baselines._base import Baseline as Baseline
from unicornn.baselines.antisymmetric import Antisymmetric as Antisymmetric
from unicornn.baselines.antisymmetric import GatedAntisymmetric as GatedAntisymmetric
from unicornn.baselines.cornn import CoRNN as CoRNN
from unicornn.baselines.exprnn import ExpRNN as ExpRNN
from unicornn.baselines.fastrnn import FastRNN as FastRNN
from unicornn.baselines.gru import GRU as GRU
from unicornn.baselines.incremental import Incremental as Incremental
from unicornn.baselines.indrnn import IndRNN as IndRNN
from unicornn.baselines.lem import LEM as LEM
from unicornn.baselines.linoss import LinOSS as LinOSS
from unicornn.baselines.lipschitz import Lipschitz as Lipschitz
from unicornn.baselines.lru import LRU as LRU
from unicornn.baselines.lstm import LSTM as LSTM
from unicornn.baselines.mingru import MinGRU as MinGRU
from unicornn.baselines.relu_gru import ReLUGRU as ReLUGRU
from unicornn.baselines.sign_ncde import SignatureNCDE as SignatureNCDE
from unicornn.baselines.skip import SkipGRU as SkipGRU
from unicornn.baselines.skip import SkipLSTM as SkipLSTM
from unicornn.baselines.sru import SRU as SRU

MODELS: dict[str, type[nn.Module]] = {
    # matrices between neurons
    "lstm": LSTM,
    "gru": GRU,
    "relu-gru": ReLUGRU,
    "skip-lstm": SkipLSTM,
    "skip-gru": SkipGRU,
    "exprnn": ExpRNN,
    "antisymmetric": Antisymmetric,
    "gated-antisymmetric": GatedAntisymmetric,
    "lipschitz": Lipschitz,
    "fastrnn": FastRNN,
    "incremental": Incremental,
    "cornn": CoRNN,
    "lem": LEM,
    "sign-ncde": SignatureNCDE,
    # independent neurons
    "indrnn": IndRNN,
    "sru": SRU,
    "mingru": MinGRU,
    "lru": LRU,
    "linoss": LinOSS,
}
"""Every baseline by its name on the command line."""
