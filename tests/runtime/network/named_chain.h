// Layers for the fp64 oracle of networks (network_oracle.h) whose parameters have the names of a description.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/network_oracle.h"

namespace minuet::abi {

/// Layers in their order. Functions that add a layer return its number.
class NamedChain {
 public:
  using Layer = oracle::NetworkLayer;
  using Finish = oracle::Finish;

  int add(Layer layer, const std::string& name = "") {
    layers_.push_back(std::move(layer));
    names_.push_back(name);
    return static_cast<int>(layers_.size()) - 1;
  }
  /// A convolution of kernel 3 with a bias, and neither norm nor activation.
  int convolution(const std::string& name, int channels) {
    return add({.channels = channels, .kernel_size = {3, 3, 3, 1}, .finishes = {kBare}}, name);
  }
  /// The layer reads the layer `input`, or the one before if that is -1.
  int linear(const std::string& name, int channels, int input = -1,
             Activation activation = Activation::None) {
    Finish finish = kBare;
    finish.activation = activation;
    return add({.channels = channels, .finishes = {finish}, .input = input}, name);
  }
  int linear_without_bias(const std::string& name, int channels, int input = -1) {
    Finish finish = kBare;
    finish.bias = false;
    return add({.channels = channels, .finishes = {finish}, .input = input}, name);
  }
  int layer_norm(const std::string& name, int input = -1) { return pointwise("layer_norm", input, name); }
  int pointwise(const std::string& function, int input = -1, const std::string& name = "") {
    return add({.op = Layer::Op::Pointwise, .function = function, .input = input, .number = 1e-5}, name);
  }
  int sum(int first, int second) {
    return add({.op = Layer::Op::Pointwise, .skip = second, .function = "add", .input = first});
  }
  int space_to_channel(int input = -1) {
    return add({.op = Layer::Op::SpaceToChannel, .stride = {2, 2, 2, 1}, .input = input});
  }

  /// The results of the layers `wanted` at these coordinates.
  std::vector<oracle::NetworkOutput> evaluate(oracle::Parameters& parameters, int in_channels,
                                              const std::vector<int32_t>& coordinates,
                                              const std::vector<float>& features,
                                              const std::vector<int>& wanted) const {
    return oracle::evaluate_layers(parameters, 3, in_channels, layers_, coordinates, features,
                                   {wanted.begin(), wanted.end()});
  }
  /// Adds the parameters that `evaluate` has drawn to `tensors`, by their names in the description.
  void take_parameters(const oracle::Parameters& parameters,
                       std::map<std::string, FileTensor>& tensors) const {
    for (const auto& [name, tensor] : parameters.all()) {
      const size_t dot = name.find('.');
      const size_t number = std::stoul(name.substr(std::string("layer").size(), dot));
      std::string rest = name.substr(dot);
      // The parameters of a linear layer are those of a convolution of kernel 1.
      const Layer& layer = layers_[number];
      if (layer.op == Layer::Op::Block && layer.kernel_size == oracle::Axes{1, 1, 1, 1})
        rest = rest.substr(std::string(".conv").size());
      tensors[names_[number] + rest] = tensor;
    }
  }

 private:
  static inline const Finish kBare{.bias = true, .norm = false, .activation = Activation::None};

  std::vector<Layer> layers_;
  std::vector<std::string> names_;
};

}  // namespace minuet::abi
