#include "runtime/weights/weights_order.h"

#include <algorithm>

namespace minuet {
namespace {

struct OrderName {
  WeightsOrder order;
  const char* name;
};
constexpr OrderName kNames[] = {{WeightsOrder::Minuet, "minuet"},
                                {WeightsOrder::Minkowski, "minkowski"},
                                {WeightsOrder::TorchSparse, "torchsparse"},
                                {WeightsOrder::Spconv, "spconv"},
                                {WeightsOrder::SpconvXyz, "spconv-xyz"},
                                {WeightsOrder::Spconv1, "spconv1"},
                                {WeightsOrder::Spconv1Xyz, "spconv1-xyz"},
                                {WeightsOrder::Spconv2, "spconv2"},
                                {WeightsOrder::Spconv2Xyz, "spconv2-xyz"},
                                {WeightsOrder::Spconv2Linear, "spconv2-linear"},
                                {WeightsOrder::Spconv2XyzLinear, "spconv2-xyz-linear"}};

/// Returns true if the kernel axes of an order of spconv are those of indices batch, z, y and x.
bool is_x_last(WeightsOrder order) {
  return order == WeightsOrder::Spconv || order == WeightsOrder::Spconv1 || order == WeightsOrder::Spconv2 ||
         order == WeightsOrder::Spconv2Linear;
}
/// Returns true if an order of spconv 2.x has kernels of one offset as [out_channels, in_channels].
bool is_linear(WeightsOrder order) {
  return order == WeightsOrder::Spconv2Linear || order == WeightsOrder::Spconv2XyzLinear;
}

template <class... Values>
llvm::Error refuse(const char* format, Values&&... values) {
  return make_error(StatusCode::InvalidArgument, format, std::forward<Values>(values)...);
}

/// Refuses groups, unless the engine has them. MinkowskiEngine has only channelwise convolutions, with one
/// input and one output channel per group.
llvm::Error check_groups(WeightsOrder order, const ConvolutionProblem& problem) {
  if (problem.groups == 1 || order == WeightsOrder::Minuet) return llvm::Error::success();
  if (order != WeightsOrder::Minkowski) {
    return refuse(
        "{0} has no convolutions with groups, but this layer has {1}: correct \"groups\" or the weights "
        "order",
        order == WeightsOrder::TorchSparse ? "TorchSparse" : "spconv", problem.groups);
  }
  if (problem.groups == problem.in_channels && problem.groups == problem.out_channels) {
    return llvm::Error::success();
  }
  return refuse(
      "MinkowskiEngine has groups in channelwise convolutions only, with one input and one output channel "
      "per "
      "group, but this layer has {0} groups of {1} input and {2} output channels: correct \"groups\" or the "
      "weights order",
      problem.groups, group_inputs(problem), problem.out_channels / problem.groups);
}

/// Refuses kernels of even size K unless K is 2. In MinkowskiEngine, they begin at the output's own position.
/// In Minuet, they begin (K - 1) / 2 positions before it, which is the same place only if K is 2.
llvm::Error check_minkowski(const ConvolutionProblem& problem) {
  if (problem.padding) {
    return refuse(
        "MinkowskiEngine makes the outputs of a strided layer at floor(p / stride), but this layer has the "
        "rule \"reached\", so these weights cannot be carried over: describe the layer with the rule "
        "\"cells\"");
  }
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i32 size = problem.kernel_size[a];
    if (size % 2 == 0 && size > 2) {
      return refuse(
          "MinkowskiEngine's kernels of even size reach from 0 to {0}, Minuet's from {1} to {2} (axis {3}), "
          "so these weights cannot be carried over",
          size - 1, -(size - 1) / 2, size / 2, a);
    }
  }
  return llvm::Error::success();
}

/// Refuses strided layers whose output coordinates differ between the engine and Minuet. TorchSparse and
/// spconv make an output wherever a kernel reaches an input, as a dense convolution does. By the rule
/// "cells", Minuet makes the outputs floor(p / stride) for inputs p. Both make the same outputs if the
/// kernels of neighbouring outputs touch without overlapping. `advice` tells how to describe a layer of the
/// engine.
llvm::Error check_dense_strides(const char* engine, const char* advice, const ConvolutionProblem& problem) {
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i32 size = problem.kernel_size[a], stride = problem.stride[a];
    if (size != stride || size > 2 || (size == 2 && problem.dilation[a] != 1)) {
      return refuse(
          "{0} makes an output wherever a strided kernel reaches, Minuet at floor(p / stride); with kernel "
          "{1}, stride {2} and dilation {3} (axis {4}) the outputs differ, so these weights cannot be "
          "carried over: only kernel 2 with stride 2, and kernel 1 with stride 1, can{5}",
          engine, size, stride, problem.dilation[a], a, advice);
    }
  }
  return llvm::Error::success();
}

llvm::Error check_torchsparse(const ConvolutionProblem& problem) {
  if (problem.padding) {
    return refuse(
        "it is not known that the outputs of TorchSparse's strided layers are those of the rule \"reached\", "
        "so these weights cannot be carried over");
  }
  if (problem.kind != ConvolutionKind::Submanifold) return check_dense_strides("TorchSparse", "", problem);
  const bool is_even = kernel_volume(problem) % 2 == 0;
  for (i32 a = 0; a < problem.ndim; ++a) {
    if (problem.kernel_size[a] > 1 && problem.dilation[a] != 1) {
      return refuse(
          "TorchSparse ignores a dilation ({0} on axis {1}): describe the layer with dilation 1, as it was "
          "trained",
          problem.dilation[a], a);
    }
    if (is_even && problem.kernel_size[a] > 2) {
      return refuse(
          "TorchSparse places a kernel of size {0} (axis {1}) with an even number of offsets differently "
          "in each kmap_mode, so these weights cannot be carried over",
          problem.kernel_size[a], a);
    }
  }
  return llvm::Error::success();
}

llvm::Error check_spconv(const ConvolutionProblem& problem) {
  // A layer with the rule "reached", and an inverse layer of it, have the outputs and offsets of spconv.
  if (problem.padding) return llvm::Error::success();
  if (problem.kind != ConvolutionKind::Submanifold) {
    return check_dense_strides(
        "spconv",
        "; describe a SparseConv3d with \"rule\": \"reached\" and its \"padding\", and a "
        "SparseInverseConv3d with the op inverse",
        problem);
  }
  for (i32 a = 0; a < problem.ndim; ++a) {
    if (problem.kernel_size[a] % 2 == 0) {
      return refuse(
          "spconv has no submanifold kernel of even size, but this layer's is {0} (axis {1}): correct "
          "the layer's kernel size or the weights order",
          problem.kernel_size[a], a);
    }
  }
  return llvm::Error::success();
}

/// Returns the layout [volume, in_channels / groups, out_channels]. Offsets of a box are numbered with the
/// first or the last axis of the kernel fastest.
WeightLayout offsets_first(const ConvolutionProblem& problem, bool first_fastest) {
  WeightLayout layout;
  layout.shape = {kernel_volume(problem), group_inputs(problem), problem.out_channels};
  layout.in_stride = problem.out_channels;
  i64 stride = static_cast<i64>(group_inputs(problem)) * problem.out_channels;
  for (i32 i = 0; i < problem.ndim; ++i) {
    const i32 a = first_fastest ? i : problem.ndim - 1 - i;
    layout.tap_strides[a] = stride;
    stride *= taps_of(problem)[a];
  }
  return layout;
}

/// Returns true if spconv multiplies the features with the weight as one matrix.
bool is_one_product(const ConvolutionProblem& problem) {
  const AxisArray& stride = problem.stride;
  return kernel_volume(problem) == 1 &&
         std::all_of(stride.begin(), stride.begin() + problem.ndim, [](i32 step) { return step == 1; });
}

/// Returns the layout [out_channels, one kernel size per axis, in_channels] of spconv 2.x.
WeightLayout outputs_first(const ConvolutionProblem& problem, bool x_is_last, bool is_linear) {
  WeightLayout layout;
  layout.spconv_version = 2;
  layout.shape = {problem.out_channels};
  i64 stride = problem.in_channels;
  for (i32 i = 0; i < problem.ndim; ++i) {
    // Goes through the axes from the fastest to the slowest one.
    const i32 a = x_is_last ? i : problem.ndim - 1 - i;
    layout.tap_strides[a] = stride;
    stride *= problem.kernel_size[a];
    layout.shape.insert(layout.shape.begin() + 1, problem.kernel_size[a]);
  }
  layout.shape.push_back(problem.in_channels);
  layout.out_stride = stride;
  if (!is_linear && is_one_product(problem)) {
    // spconv 2.x reads the memory of such a weight as [in_channels, out_channels], whatever its shape says
    // (issue 450 of traveller59/spconv).
    layout.in_stride = problem.out_channels;
    layout.out_stride = 1;
    layout.is_by_memory = true;
  }
  return layout;
}

/// Returns the layout [one kernel size per axis, in_channels, out_channels] of spconv 1.x.
WeightLayout outputs_last(const ConvolutionProblem& problem, bool x_is_last) {
  WeightLayout layout = offsets_first(problem, x_is_last);
  layout.spconv_version = 1;
  layout.shape.erase(layout.shape.begin());
  for (i32 i = 0; i < problem.ndim; ++i) {
    // Goes through the axes from the fastest to the slowest one.
    layout.shape.insert(layout.shape.begin(), problem.kernel_size[x_is_last ? i : problem.ndim - 1 - i]);
  }
  return layout;
}

/// Returns the layout of a kernel of one offset as a matrix. The shape is [in_channels, out_channels], or
/// [out_channels, in_channels] as in torch.nn.Linear.
WeightLayout matrix(const ConvolutionProblem& problem, bool is_linear) {
  WeightLayout layout;
  layout.shape = {problem.in_channels, problem.out_channels};
  layout.in_stride = problem.out_channels;
  if (is_linear) {
    layout.shape = {problem.out_channels, problem.in_channels};
    layout.in_stride = 1;
    layout.out_stride = problem.in_channels;
  }
  return layout;
}

/// Appends the layouts in which a network with one axis fewer stores the weight, without one of the axes on
/// which the kernel has one offset. A layer below a collapse is a layer of such a network.
[[gnu::cold]] void add_without_axis(const ConvolutionProblem& problem, std::vector<WeightLayout>& layouts) {
  if (problem.ndim == 1) return;
  const std::size_t count = layouts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::ptrdiff_t first = layouts[i].spconv_version == 2 ? 1 : 0;
    for (std::ptrdiff_t axis = first; axis < first + problem.ndim; ++axis) {
      WeightLayout narrow = layouts[i];
      if (narrow.shape[static_cast<std::size_t>(axis)] != 1) continue;
      narrow.shape.erase(narrow.shape.begin() + axis);
      // Removing another axis of size 1 may give the same shape. The elements are then in the same order.
      const bool is_known = std::any_of(layouts.begin(), layouts.end(), [&](const WeightLayout& other) {
        return other.spconv_version == narrow.spconv_version && other.shape == narrow.shape;
      });
      if (!is_known) layouts.push_back(std::move(narrow));
    }
  }
}

/// Returns the layouts of an order of spconv.
std::vector<WeightLayout> spconv_layouts(WeightsOrder order, const ConvolutionProblem& problem) {
  const bool is_first = order == WeightsOrder::Spconv1 || order == WeightsOrder::Spconv1Xyz;
  const bool is_second =
      order == WeightsOrder::Spconv2 || order == WeightsOrder::Spconv2Xyz || is_linear(order);
  std::vector<WeightLayout> layouts;
  if (!is_first) layouts.push_back(outputs_first(problem, is_x_last(order), is_linear(order)));
  if (!is_second) layouts.push_back(outputs_last(problem, is_x_last(order)));
  add_without_axis(problem, layouts);
  if (kernel_volume(problem) == 1) layouts.push_back(matrix(problem, /*is_linear=*/true));
  return layouts;
}

}  // namespace

llvm::Expected<WeightsOrder> parse_weights_order(llvm::StringRef name) {
  std::string names;
  for (const OrderName& known : kNames) {
    if (name == known.name) return known.order;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return refuse("there is no weights order \"{0}\": use one of {1}", name, names);
}

const char* weights_order_name(WeightsOrder order) {
  for (const OrderName& known : kNames) {
    if (known.order == order) return known.name;
  }
  return "?";
}

llvm::Error check_carries_over(WeightsOrder order, const ConvolutionProblem& problem) {
  MINUET_TRY(check_groups(order, problem));
  if (!problem.offsets.empty() && order != WeightsOrder::Minuet) {
    return refuse(
        "the layer's kernel is not a box but has a list of {0} offsets, and it is not known in which order "
        "other engines store the weights of such kernels: store them in the order \"minuet\", which is that "
        "of the list",
        problem.offsets.size());
  }
  switch (order) {
    case WeightsOrder::Minuet:
      break;
    case WeightsOrder::Minkowski:
      return check_minkowski(problem);
    case WeightsOrder::TorchSparse:
      return check_torchsparse(problem);
    case WeightsOrder::Spconv:
    case WeightsOrder::SpconvXyz:
    case WeightsOrder::Spconv1:
    case WeightsOrder::Spconv1Xyz:
    case WeightsOrder::Spconv2:
    case WeightsOrder::Spconv2Xyz:
    case WeightsOrder::Spconv2Linear:
    case WeightsOrder::Spconv2XyzLinear:
      return check_spconv(problem);
  }
  return llvm::Error::success();
}

std::vector<WeightLayout> weight_layouts(WeightsOrder order, const ConvolutionProblem& problem,
                                         llvm::StringRef name) {
  const i64 volume = kernel_volume(problem);
  std::vector<WeightLayout> layouts;
  switch (order) {
    case WeightsOrder::Minuet:
      layouts = {offsets_first(problem, /*first_fastest=*/false)};
      // A network of another framework may store a linear layer beside convolutions in Minuet's order. A
      // matrix that is called "kernel" is refused, because other engines give that name to [C_in, C_out].
      if (volume == 1 && problem.groups == 1 && name.take_back(6) != "kernel") {
        layouts.push_back(matrix(problem, /*is_linear=*/true));
      }
      return layouts;
    case WeightsOrder::Minkowski:
    case WeightsOrder::TorchSparse:
      layouts = {offsets_first(problem, order == WeightsOrder::Minkowski || volume % 2 == 1)};
      // A channelwise convolution has no axis for its one input channel per group.
      if (problem.groups > 1) {
        layouts.front().shape = {volume, problem.out_channels};
        return layouts;
      }
      if (volume == 1) {
        layouts.push_back(matrix(problem, /*is_linear=*/false));
        // MinkowskiEngine and TorchSparse name convolution weights "kernel"; a "weight" may belong to a
        // linear layer.
        if (name.take_back(6) != "kernel") layouts.push_back(matrix(problem, /*is_linear=*/true));
      }
      return layouts;
    case WeightsOrder::Spconv:
    case WeightsOrder::SpconvXyz:
    case WeightsOrder::Spconv1:
    case WeightsOrder::Spconv1Xyz:
    case WeightsOrder::Spconv2:
    case WeightsOrder::Spconv2Xyz:
    case WeightsOrder::Spconv2Linear:
    case WeightsOrder::Spconv2XyzLinear:
      return spconv_layouts(order, problem);
  }
  return layouts;
}

const WeightLayout* find_layout(llvm::ArrayRef<WeightLayout> layouts, llvm::ArrayRef<i64> shape,
                                const ConvolutionProblem& problem, bool& is_ambiguous) {
  const WeightLayout* fitting = nullptr;
  int fits = 0;
  for (const WeightLayout& layout : layouts) {
    if (llvm::ArrayRef<i64>(layout.shape) != shape) continue;
    fitting = &layout;
    ++fits;
  }
  is_ambiguous = fits > 1 && group_inputs(problem) > 1;
  return fitting;
}

std::string ambiguity_text(WeightsOrder order, const std::string& shape) {
  if (order == WeightsOrder::Spconv || order == WeightsOrder::SpconvXyz) {
    const std::string axes = order == WeightsOrder::Spconv ? "" : "-xyz";
    return "its shape " + shape +
           " may be spconv 2.x's [C_out, kernel, C_in] or spconv 1.x's [kernel, C_in, C_out]: name the "
           "version "
           "that stored it with the option weights_order \"spconv2" +
           axes + "\" or \"spconv1" + axes + "\"";
  }
  return "its shape " + shape +
         " may be a convolution's [C_in, C_out] or a linear layer's [C_out, C_in]: call it \"kernel\" if it "
         "is "
         "the first, or give it as [1, C_in, C_out]";
}

std::vector<std::vector<int64_t>> vector_shapes(WeightsOrder order, i64 channels) {
  // MinkowskiEngine's biases are matrices of one row.
  if (order == WeightsOrder::Minkowski) return {{channels}, {1, channels}};
  return {{channels}};
}

std::vector<float> to_minuet_order(const WeightLayout& layout, const ConvolutionProblem& problem,
                                   const std::vector<float>& stored) {
  std::vector<float> weight;
  weight.reserve(stored.size());
  const AxisArray taps = taps_of(problem);
  AxisArray tap{};
  for (i64 k = 0; k < kernel_volume(problem); ++k) {
    i64 base = 0;
    for (i32 a = 0; a < problem.ndim; ++a) base += tap[a] * layout.tap_strides[a];
    for (i64 i = 0; i < group_inputs(problem); ++i) {
      for (i64 o = 0; o < problem.out_channels; ++o) {
        weight.push_back(stored[base + i * layout.in_stride + o * layout.out_stride]);
      }
    }
    for (i32 a = problem.ndim - 1; a >= 0 && ++tap[a] == taps[a]; --a) tap[a] = 0;
  }
  return weight;
}

}  // namespace minuet
