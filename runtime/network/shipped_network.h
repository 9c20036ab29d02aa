// Describes the networks that are built into the library.
#pragma once

#include "codegen/base/error.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Describes the space in which a network's voxels are counted by default. Lengths are in metres.
struct ShippedGrid {
  // Holds the least x, y and z, followed by the greatest ones.
  double range[6] = {};
  double voxel_size[3] = {};
  // Holds how many more cells the network's shape has on each axis than the range has voxels. Detection
  // networks have one layer of empty cells more along z.
  int extra_cells[3] = {};
};

/// Describes KITTI's setting in OpenPCDet.
inline constexpr ShippedGrid kKittiGrid{{0, -40, -3, 70.4, 40, 1}, {0.05, 0.05, 0.1}, {0, 0, 1}};
/// Describes BEVFusion's setting for nuScenes.
inline constexpr ShippedGrid kNuScenesGrid{{-54, -54, -5, 54, 54, 3}, {0.075, 0.075, 0.2}, {0, 0, 1}};

struct ShippedNetwork {
  const char* name = nullptr;
  // Says in one line what the network is.
  const char* summary = nullptr;
  const char* json = nullptr;
  // Holds the JSON text of a weights map (parse_names()) from the names of the network's authors to those of
  // the description. It is null if the network has no such map.
  const char* weights_map = nullptr;
  // Holds the network's default grid. Its voxel size is 0 if the network's input has no shape.
  ShippedGrid grid = {};

  bool has_grid() const { return grid.voxel_size[0] > 0; }
};

/// Returns all shipped networks in the order in which they are listed.
llvm::ArrayRef<ShippedNetwork> shipped_networks();

/// Returns the shipped network of this name, or null.
const ShippedNetwork* find_shipped_network(llvm::StringRef name);

/// Returns the JSON text of a shipped network, or NotFound with the names of those that exist.
llvm::Expected<llvm::StringRef> shipped_network(llvm::StringRef name);

}  // namespace minuet
