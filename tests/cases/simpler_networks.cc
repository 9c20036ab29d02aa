// Networks that are a step simpler than a random one.
#include <algorithm>

#include "tests/cases/random_networks.h"

namespace minuet {

using oracle::Axes;
using oracle::NetworkLayer;
using Op = NetworkLayer::Op;

namespace {

constexpr Axes kOnes{1, 1, 1, 1};

void add_without_layers(const NetworkCase& network, std::vector<NetworkCase>& cases) {
  for (size_t i = 0; i < network.layers.size(); ++i) {
    NetworkCase shorter = network;
    shorter.layers.erase(shorter.layers.begin() + static_cast<int64_t>(i));
    bool whole = true;
    for (NetworkLayer& layer : shorter.layers) {
      whole = whole && layer.skip != static_cast<int>(i);
      if (layer.skip > static_cast<int>(i)) --layer.skip;
    }
    if (whole) cases.push_back(shorter);
  }
}

/// The levels that differ along these axes become one, or the axes go.
void add_without_axes(const NetworkCase& network, std::vector<NetworkCase>& cases) {
  for (int a = 0; a <= network.ndim; ++a) {
    NetworkCase flat = network;
    for (NetworkLayer& layer : flat.layers) {
      layer.stride = a == network.ndim ? kOnes : layer.stride;
      if (a < network.ndim) layer.stride[a] = 1;
      if ((layer.op == Op::Up || layer.op == Op::SpaceToChannel || layer.op == Op::ChannelToSpace) &&
          layer.stride == kOnes)
        layer.op = Op::Block, layer.skip = -1;
    }
    cases.push_back(flat);
    if (a == network.ndim || network.ndim == 1) continue;
    --flat.ndim;
    for (NetworkLayer& layer : flat.layers) {
      layer.offsets.clear();
      for (Axes* axes : {&layer.kernel_size, &layer.stride, &layer.dilation}) {
        std::rotate(axes->begin() + a, axes->begin() + a + 1, axes->end());
        std::fill(axes->begin() + flat.ndim, axes->end(), 1);
      }
    }
    cases.push_back(flat);
  }
}

void add_simpler_layers(const NetworkCase& network, std::vector<NetworkCase>& cases) {
  for (size_t i = 0; i < network.layers.size(); ++i) {
    auto add = [&](auto change) {
      cases.push_back(network);
      change(cases.back().layers[i]);
    };
    add([](NetworkLayer& layer) { layer = {.channels = layer.channels}; });
    add([](NetworkLayer& layer) { layer.is_cross = false; });
    add([](NetworkLayer& layer) { layer.offsets.clear(); });
    add([](NetworkLayer& layer) {
      if (layer.offsets.size() > 1) layer.offsets.pop_back();
    });
    add([](NetworkLayer& layer) { layer.finishes.clear(); });
    for (size_t f = 0; f < network.layers[i].finishes.size(); ++f) {
      add([f](NetworkLayer& layer) { layer.finishes[f] = {}; });
    }
    add([](NetworkLayer& layer) {
      if (layer.op == Op::Bottleneck)
        layer.op = Op::Residual, layer.inner_channels = NetworkLayer{}.inner_channels;
    });
    add([](NetworkLayer& layer) { layer.channels = 1; });
    add([](NetworkLayer& layer) { layer.channels = (layer.channels + 1) / 2; });
    add([](NetworkLayer& layer) { layer.channels = std::max(layer.channels - 1, 1); });
    for (Axes NetworkLayer::*field :
         {&NetworkLayer::kernel_size, &NetworkLayer::stride, &NetworkLayer::dilation}) {
      add([&](NetworkLayer& layer) { layer.*field = kOnes; });
      for (int a = 0; a < network.ndim; ++a) {
        add([&](NetworkLayer& layer) { (layer.*field)[a] = std::max((layer.*field)[a] - 1, 1); });
      }
    }
  }
}

}  // namespace

std::vector<NetworkCase> simpler_networks(const NetworkCase& network) {
  std::vector<NetworkCase> cases;
  auto add = [&](auto change) {
    cases.push_back(network);
    change(cases.back());
  };
  add_without_layers(network, cases);
  for (const int64_t cut :
       {network.points, network.points / 2, network.points / 4, network.points / 16, int64_t{1}}) {
    add([&](NetworkCase& simpler) { simpler.points = std::max<int64_t>(simpler.points - cut, 0); });
  }
  add([](NetworkCase& simpler) { simpler.batches = 1; });
  add([](NetworkCase& simpler) { simpler.in_channels = 1; });
  add([](NetworkCase& simpler) { simpler.in_channels = (simpler.in_channels + 1) / 2; });
  add([](NetworkCase& simpler) { simpler.dtype = DType::F32; });
  add_without_axes(network, cases);
  add_simpler_layers(network, cases);
  std::erase_if(cases,
                [&](const NetworkCase& simpler) { return simpler == network || !is_feasible(simpler); });
  return cases;
}

}  // namespace minuet
