// Random chains of layers on small clouds: whole networks through the C ABI.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels_templates/shared/types.h"
#include "tests/support/network_oracle.h"

namespace minuet {

struct NetworkCase {
  DType dtype = DType::F32;
  int ndim = 3, in_channels = 4;
  std::vector<oracle::NetworkLayer> layers;
  int64_t points = 0;
  int batches = 1;
  uint64_t seed = 1;

  /// What runtime/network/networks/README.md asks for. Where `names_all` is false, results of pointwise ops
  /// that no other layer takes have no name.
  std::string json(bool names_all = false) const;
  /// int32 [points, 1 + ndim]: unique, negative ones too, in any order.
  std::vector<int32_t> coordinates() const;
  bool operator==(const NetworkCase&) const = default;
};

NetworkCase draw_network(DType dtype, uint64_t seed);

/// True for what the library has to take: layers that fit together, no tensor in two concatenations.
bool is_feasible(const NetworkCase& network);

std::vector<NetworkCase> simpler_networks(const NetworkCase& network);

/// C++ text of the case, to paste.
std::string as_initializer(const NetworkCase& network);

}  // namespace minuet
