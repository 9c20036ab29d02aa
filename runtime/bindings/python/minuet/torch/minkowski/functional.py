"""Functions of torch.nn.functional that are applied to the features, under the names of MinkowskiFunctional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn import functional as dense


def _of_features(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of tensors that applies another one to their features, and ignores `inplace`."""

    def applied(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        return input._map(lambda features: function(features, *args, **kwargs))

    applied.__name__ = applied.__qualname__ = function.__name__
    applied.__doc__ = f"Applies torch.nn.functional.{function.__name__} to the features of a tensor."
    return applied


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a loss of the features of a tensor."""

    def applied(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(input, "count", None) is not None:
            raise ValueError(
                f"{function.__name__}() would count rows that are not in use in capacity mode: select those of F that "
                "are, or use exact mode"
            )
        return function(input.F, target, *args, **kwargs)

    applied.__name__ = applied.__qualname__ = function.__name__
    applied.__doc__ = f"Returns torch.nn.functional.{function.__name__} of the features of a tensor."
    return applied


threshold = _of_features(dense.threshold)
relu = _of_features(dense.relu)
hardtanh = _of_features(dense.hardtanh)
hardswish = _of_features(dense.hardswish)
relu6 = _of_features(dense.relu6)
elu = _of_features(dense.elu)
selu = _of_features(dense.selu)
celu = _of_features(dense.celu)
leaky_relu = _of_features(dense.leaky_relu)
prelu = _of_features(dense.prelu)
rrelu = _of_features(dense.rrelu)
gelu = _of_features(dense.gelu)
logsigmoid = _of_features(dense.logsigmoid)
hardshrink = _of_features(dense.hardshrink)
tanhshrink = _of_features(dense.tanhshrink)
softsign = _of_features(dense.softsign)
softplus = _of_features(dense.softplus)
softshrink = _of_features(dense.softshrink)
softmax = _of_features(dense.softmax)
log_softmax = _of_features(dense.log_softmax)
tanh = _of_features(dense.tanh)
sigmoid = _of_features(dense.sigmoid)
hardsigmoid = _of_features(dense.hardsigmoid)
silu = _of_features(dense.silu)
normalize = _of_features(dense.normalize)
linear = _of_features(dense.linear)
dropout = _of_features(dense.dropout)
alpha_dropout = _of_features(dense.alpha_dropout)
binary_cross_entropy = _loss(dense.binary_cross_entropy)
binary_cross_entropy_with_logits = _loss(dense.binary_cross_entropy_with_logits)
cross_entropy = _loss(dense.cross_entropy)
l1_loss = _loss(dense.l1_loss)
mse_loss = _loss(dense.mse_loss)
nll_loss = _loss(dense.nll_loss)
smooth_l1_loss = _loss(dense.smooth_l1_loss)
