// Networks in fp64 by plain loops: the two that are shipped, written out from the design page on networks,
// and any chain of layers. Nothing is shared with the library: neither its descriptions nor its programs, and
// nothing is rounded between layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels_templates/shared/types.h"
#include "tests/support/oracle.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::oracle {

/// A network's parameters by name. Those that are asked for and not there are drawn, so that after one
/// evaluation `all` is just what the network needs.
class Parameters {
 public:
  /// Draws from the seed and the name: convolution weights are multiples of a power of two with 7 bits,
  /// exact in every dtype; batch norm is any float near the identity.
  explicit Parameters(uint64_t seed) : seed_(seed) {}
  /// Draws nothing: a missing name throws std::out_of_range.
  explicit Parameters(std::map<std::string, FileTensor> tensors)
      : tensors_(std::move(tensors)), drawn_(false) {}

  /// [volume, in, out]; `neighbours` is how many inputs an output usually has, for the variance.
  const std::vector<float>& weight(const std::string& name, int64_t volume, int64_t in, int64_t out,
                                   double neighbours);
  /// [channels], mean +- spread.
  const std::vector<float>& vector(const std::string& name, int64_t channels, double mean, double spread);
  const std::map<std::string, FileTensor>& all() const { return tensors_; }

 private:
  std::map<std::string, FileTensor> tensors_;
  uint64_t seed_ = 0;
  bool drawn_ = true;
};

struct NetworkOutput {
  std::vector<int32_t> coordinates;  // [rows, 1 + ndim]: as given where no layer is coarser, else ascending
  int64_t channels = 0;
  std::vector<double> features;  // [rows, channels]
  double largest = 0;            // |value| that any layer writes
};

/// coordinates: int32 [n, 4], unique, in any order. features: [n, 4]. classes > 0 adds the head.
NetworkOutput minkunet42(Parameters& parameters, const std::vector<int32_t>& channels,
                         const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                         int64_t classes = 0);
NetworkOutput sparseresnet21d(Parameters& parameters, const std::vector<int32_t>& channels,
                              const std::vector<int32_t>& coordinates, const std::vector<float>& features);

/// activation(norm(convolution + bias))
struct Finish {
  using Activation = minuet::Activation;
  bool bias = false, norm = true, affine = true;
  double epsilon = 1e-5;
  Activation activation = Activation::ReLU;
  double slope = 0;  // of a leaky ReLU
  bool operator==(const Finish&) const = default;
};

/// One layer of any network, as runtime/network/networks/README.md has them.
struct NetworkLayer {
  enum class Op { Block, Residual, Up, Concat, Bottleneck, Pointwise, SpaceToChannel, ChannelToSpace };
  Op op = Op::Block;
  // The channels that come out. They have no meaning for ops without a convolution.
  int channels = 4;
  Axes kernel_size{1, 1, 1, 1}, stride{1, 1, 1, 1}, dilation{1, 1, 1, 1};
  bool is_cross = false;  // kernels have only those offsets that are not 0 on at most one axis
  // Of a Block or an Up: the kernel's list, in cells of the finer level, in place of a size and a dilation.
  std::vector<Axes> offsets = {};
  // The earlier layer whose coordinates an Up or a ChannelToSpace goes back onto, or whose result a Concat,
  // an add or a multiply takes.
  int skip = -1;
  int inner_channels = 4;     // of a bottleneck's first two convolutions
  std::string function = {};  // of a pointwise op, by its name in a description
  static constexpr double kNumber = 0.25;
  // Of each convolution, a residual's and a bottleneck's shortcut last; the activation of their last
  // convolution comes behind the addition, and the shortcut has none. Missing ones are as above.
  std::vector<Finish> finishes = {};
  Finish finish(size_t convolution) const {
    return convolution < finishes.size() ? finishes[convolution] : Finish{};
  }
  int input = -1;           // the earlier layer that this one reads; -1: the one before
  double number = kNumber;  // the slope or epsilon of a pointwise op
  bool operator==(const NetworkLayer&) const = default;
};

/// The prefix of a layer's parameters in `evaluate`: "layer3".
std::string layer_name(size_t index);

/// A chain of layers. features: [n, in_channels].
NetworkOutput evaluate(Parameters& parameters, int ndim, int in_channels,
                       const std::vector<NetworkLayer>& layers, const std::vector<int32_t>& coordinates,
                       const std::vector<float>& features);

/// The results of the layers whose numbers are in `wanted`.
std::vector<NetworkOutput> evaluate_layers(Parameters& parameters, int ndim, int in_channels,
                                           const std::vector<NetworkLayer>& layers,
                                           const std::vector<int32_t>& coordinates,
                                           const std::vector<float>& features,
                                           const std::vector<size_t>& wanted);

/// Values k / 64 with |k| <= 127, exact in every dtype.
std::vector<float> draw_features(int64_t count, uint64_t seed);

}  // namespace minuet::oracle
