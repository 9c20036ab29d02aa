"""Rules for ops of torch that compute each row of features from that row."""

from __future__ import annotations

from typing import Any

import torch

from ._recorder import ADVICE, Call, DescriptionError, Found, rule
from ._values import Dense, Node, UnknownLevel

OF_BATCH = (
    "it normalizes by the statistics of its input, and a network has constant ones: give the norm "
    "track_running_stats=True, and do not set it to training in forward()"
)


def _floats(tensor: torch.Tensor) -> torch.Tensor:
    """Returns numbers that a rule computes with."""
    return tensor.detach().to("cpu", torch.float32)


def same(call: Call) -> Found:
    """Returns the value of the input: the op copies it, or looks at it in another way."""
    return call.recorder.find(call.given[0])


# Views keep the order of the elements. What reads features checks that they have the shape [rows, channels].
rule("alias", "detach", "clone", "contiguous", "lift_fresh")(same)


@rule("_to_copy")
def _cast(call: Call) -> Found:
    value = call.value("self")
    dtype = call.result.dtype
    if isinstance(value, Node | Dense) and not dtype.is_floating_point and dtype != call.given[0].dtype:
        raise DescriptionError(f"it makes {dtype} of features: {ADVICE}")
    return value


@rule("native_dropout")
def _dropout(call: Call) -> Found:
    if call.arguments["train"]:
        raise DescriptionError("dropout is random: export runs the module in eval mode, so do not ask for training")
    return call.features("input"), None


def _activation(op: str, **fields: str) -> Any:
    """Makes the rule of a function of each element. `fields` name the op's argument of each field of the layer."""

    def describe(call: Call) -> Found:
        made = {name: call.arguments[argument] for name, argument in fields.items()}
        return call.node(op, call.features("self"), fields=made)

    return describe


for _op in ("relu", "silu", "sigmoid", "tanh"):
    rule(_op)(_activation(_op))
rule("leaky_relu")(_activation("leaky_relu", slope="negative_slope"))
rule("gelu")(_activation("gelu", approximate="approximate"))


@rule("_prelu_kernel")
def _prelu(call: Call) -> Found:
    weight = call.constant("weight")
    assert weight is not None
    slopes = set(weight.float().flatten().tolist())
    if len(slopes) != 1:
        raise DescriptionError("a PReLU with a slope for each channel has no layer: use one slope for all channels")
    return call.node("leaky_relu", call.features("self"), fields={"slope": slopes.pop()})


@rule("clamp", "clamp_min", "threshold")
def _clamp(call: Call) -> Found:
    limits = {name: call.arguments.get(name) for name in ("min", "max", "threshold", "value")}
    least = {name: number for name, number in limits.items() if number is not None and name != "max"}
    if limits["max"] is not None or any(isinstance(n, torch.Tensor) or n != 0 for n in least.values()):
        raise DescriptionError(f"only a limit of 0 from below, which is a ReLU, has a layer: {ADVICE}")
    return call.node("relu", call.features("self"))


# ---- sums and products --------------------------------------------------------------------------------------------


def per_channel(call: Call, name: str, channels: int) -> torch.Tensor:
    """Returns a constant operand, one number for each channel."""
    given = call.arguments[name]
    if not isinstance(given, torch.Tensor):
        return torch.full((channels,), float(given))
    constant = call.constant(name)
    assert constant is not None
    if constant.numel() == 1:
        return constant.reshape(1).repeat(channels)
    if constant.shape[-1] != channels or constant.numel() != channels:
        raise DescriptionError(
            f"it combines features of {channels} channels with a constant of the shape {list(constant.shape)}: give "
            "a number, or one for each channel"
        )
    return constant.reshape(channels)


def scale_shift(call: Call, node: Node, scale: torch.Tensor | None, shift: torch.Tensor | None) -> Node:
    """Records x * scale + shift."""
    given = {
        "weight": torch.ones(node.channels) if scale is None else scale,
        "bias": torch.zeros(node.channels) if shift is None else shift,
    }
    absent = frozenset(name for name, value in (("weight", scale), ("bias", shift)) if value is None)
    return call.node("scale_shift", node, parameters=given, absent=absent)


def unify(first: Node, second: Node) -> None:
    """Makes sure that two nodes lie on one level, where the level of an input may not be known yet."""
    one, two = first.level.resolve(), second.level.resolve()
    if one is two:
        return
    if isinstance(one, UnknownLevel):
        one.become(two)
    elif isinstance(two, UnknownLevel):
        two.become(one)
    else:
        raise DescriptionError("it combines features of different levels: bring them to one level first")


def _repeated(call: Call, node: Node, channels: int) -> Node:
    """Repeats one channel, by a product with ones, which changes no bit."""
    if node.channels == channels:
        return node
    fields = {"out_channels": channels, "bias": False}
    return call.node(
        "linear", node, channels=channels, fields=fields, parameters={"weight": torch.ones(1, 1, channels)}
    )


def _both(call: Call, first: str, second: str) -> tuple[Node, Node]:
    one, two = call.features(first), call.features(second)
    if 1 in (one.channels, two.channels):
        channels = max(one.channels, two.channels)
        one, two = _repeated(call, one, channels), _repeated(call, two, channels)
    if one.channels != two.channels:
        raise DescriptionError(
            f"it combines features of {one.channels} and of {two.channels} channels, and both must have as many"
        )
    unify(one, two)
    return one, two


def _is_features(call: Call, name: str) -> bool:
    return isinstance(call.value(name), Node)


def _sum(call: Call, sign: float) -> Found:
    alpha = sign * float(call.arguments.get("alpha", 1))
    if _is_features(call, "self") and _is_features(call, "other"):
        one, two = _both(call, "self", "other")
        if alpha != 1:
            two = scale_shift(call, two, torch.full((two.channels,), alpha), None)
        return call.node("add", one, two)
    if _is_features(call, "self"):
        node = call.features("self")
        shift = per_channel(call, "other", node.channels)
        return scale_shift(call, node, None, shift if alpha == 1 else alpha * _floats(shift))
    node = call.features("other")
    shift = per_channel(call, "self", node.channels)
    if alpha == 1:
        return scale_shift(call, node, None, shift)
    return scale_shift(call, node, torch.full((node.channels,), alpha), shift)


def is_of_coordinates(call: Call) -> bool:
    """Whether an op computes with coordinates and no features."""
    return not any(isinstance(call.recorder.find(tensor), Node | Dense) for tensor in call.given)


@rule("neg")
def _negative(call: Call) -> Found:
    node = call.features("self")
    return scale_shift(call, node, torch.full((node.channels,), -1.0), None)


@rule("rsub")
def _reversed_difference(call: Call) -> Found:
    node = call.features("self")
    if _is_features(call, "other") or call.arguments.get("alpha", 1) != 1:
        raise DescriptionError("write the difference as a - b")
    return scale_shift(call, node, torch.full((node.channels,), -1.0), per_channel(call, "other", node.channels))


def add_rows(call: Call) -> Found:
    """Records a sum."""
    return _sum(call, 1.0)


def subtract_rows(call: Call) -> Found:
    """Records a difference."""
    return _sum(call, -1.0)


def multiply_rows(call: Call) -> Found:
    """Records a product."""
    if _is_features(call, "self") and _is_features(call, "other"):
        return call.node("multiply", *_both(call, "self", "other"))
    features, constant = ("self", "other") if _is_features(call, "self") else ("other", "self")
    node = call.features(features)
    return scale_shift(call, node, per_channel(call, constant, node.channels), None)


@rule("div")
def _quotient(call: Call) -> Found:
    node = call.features("self")
    if call.arguments.get("rounding_mode") is not None or _is_features(call, "other"):
        raise DescriptionError(f"only a quotient by a constant has a layer: {ADVICE}")
    return scale_shift(call, node, 1 / _floats(per_channel(call, "other", node.channels)), None)


@rule("cat")
def _concat(call: Call) -> Found:
    tensors = call.arguments["tensors"]
    if is_of_coordinates(call) or call.arguments["dim"] not in (1, -1):
        raise DescriptionError(f"only channels can be put side by side, with dim=1: {ADVICE}")
    nodes = [call.node_of(tensor) for tensor in tensors]
    made = nodes[0]
    for node in nodes[1:]:
        unify(made, node)
        made = call.node("concat", made, node, channels=made.channels + node.channels)
    return made


# ---- layers with parameters ---------------------------------------------------------------------------------------


def name_of(call: Call, parameter: torch.Tensor | None) -> str:
    """Returns a layer's name: the path of the module that has the parameter, or of the one that runs."""
    found = None if parameter is None else call.recorder.parameter_name(parameter)
    if found is None:
        return call.recorder.path
    owner, _, leaf = found.rpartition(".")
    return owner if leaf in ("weight", "kernel") else found


def _linear(call: Call, x: str, weight: torch.Tensor, bias: torch.Tensor | None) -> Found:
    """Records a linear layer of a weight [in, out]."""
    node = call.features(x)
    parameters = {"weight": weight[None]}
    if bias is not None:
        parameters["bias"] = bias.reshape(-1)
    fields: dict[str, Any] = {"out_channels": weight.shape[1]}
    if bias is None:
        fields["bias"] = False
    name = name_of(call, weight)
    return call.node("linear", node, channels=weight.shape[1], fields=fields, parameters=parameters, name=name)


@rule("mm")
def _product(call: Call) -> Found:
    weight = call.constant("mat2")
    assert weight is not None
    return _linear(call, "self", weight, None)


@rule("addmm")
def _product_and_sum(call: Call) -> Found:
    weight, bias = call.constant("mat2"), call.constant("self")
    assert weight is not None and bias is not None
    is_plain = call.arguments["beta"] == 1 and call.arguments["alpha"] == 1
    if not is_plain or bias.numel() != weight.shape[1]:
        raise DescriptionError("only x @ weight + bias with one number for each channel has a layer")
    return _linear(call, "mat1", weight, bias)


@rule("linear")
def _whole_linear(call: Call) -> Found:
    weight, bias = call.constant("weight"), call.constant("bias")
    assert weight is not None
    return _linear(call, "input", weight.t(), bias)


def _norm_parameters(call: Call, channels: int) -> dict[str, torch.Tensor]:
    weight, bias = call.constant("weight"), call.constant("bias")
    if weight is None and bias is None:
        return {}
    return {
        "weight": torch.ones(channels) if weight is None else weight,
        "bias": torch.zeros(channels) if bias is None else bias,
    }


@rule(
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_batch_norm_no_update",
    "cudnn_batch_norm", "miopen_batch_norm",
)  # fmt: skip
def _batch_norm(call: Call) -> Found:
    node = call.features("input")
    mean, variance = call.constant("running_mean"), call.constant("running_var")
    if call.arguments.get("training") or mean is None or variance is None:
        raise DescriptionError(OF_BATCH)
    parameters = _norm_parameters(call, node.channels)
    epsilon = call.arguments["eps" if "eps" in call.arguments else "epsilon"]
    made = call.node(
        "batch_norm",
        node,
        fields={"epsilon": epsilon, **({} if parameters else {"affine": False})},
        parameters={**parameters, "running_mean": mean, "running_var": variance},
        name=name_of(call, call.arguments.get("weight")),
    )
    return (made, *[None] * (len(call.results) - 1))


@rule("native_layer_norm")
def _layer_norm(call: Call) -> Found:
    node = call.features("input")
    if list(call.arguments["normalized_shape"]) != [node.channels]:
        raise DescriptionError("only a layer norm over the channels of each row has a layer")
    parameters = _norm_parameters(call, node.channels)
    fields = {"epsilon": call.arguments["eps"], **({} if parameters else {"affine": False})}
    name = name_of(call, call.arguments.get("weight"))
    return call.node("layer_norm", node, fields=fields, parameters=parameters, name=name), None, None


@rule("_softmax")
def _softmax(call: Call) -> Found:
    if call.arguments["dim"] not in (1, -1):
        raise DescriptionError("only a softmax over the channels of each row, dim=1, has a layer")
    return call.node("softmax", call.features("self"))


@rule("argmax")
def _argmax(call: Call) -> Found:
    if call.arguments["dim"] not in (1, -1):
        raise DescriptionError("only the argmax over the channels of each row, dim=1, has a layer")
    return call.node("argmax", call.features("self"), channels=1)


# ---- memory that depends on the shape alone -----------------------------------------------------------------------


@rule(
    "new_zeros", "new_empty", "new_ones", "new_full", "new_empty_strided", "zeros_like", "empty_like", "ones_like",
    "full_like",
)  # fmt: skip
def _constant(call: Call) -> Found:
    return None
