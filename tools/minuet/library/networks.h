// Lists the networks that are built into the library, and chooses the grid of a network's voxels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "minuet/minuet.h"
#include "tools/minuet/cloud/grid.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Returns all networks that are built into the library, in the library's order.
const std::vector<minuet_shipped_network_info>& shipped_networks();
/// Returns the network of this name that is built into the library, or null.
const minuet_shipped_network_info* find_shipped(llvm::StringRef name);
/// Returns the names of all shipped networks, separated by commas.
std::string shipped_names();

/// Holds the values of the flags about the grid of a network's voxels.
struct GridFlags {
  std::string range;       ///< Holds the value of --range. It is empty if the flag is absent.
  std::string voxel_size;  ///< Holds the value of --voxel-size. It is empty if the flag is absent.
  /// Tells whether the cloud has points. Voxels of a file are cells already, so they need no grid.
  bool has_points = true;
};

/// Returns the grid in which the voxels of `network`, a name or a JSON file, are counted. A flag takes
/// precedence over the default of a shipped network. Returns nothing if the voxels are counted from an
/// origin, in no grid, because there is no --range and the network's input has no shape, or the cloud has no
/// points.
///
/// Grid::shape is the shape of the network's input: the cells of the grid, and those that a shipped network
/// has in addition. A JSON file whose "shape" has as many cells on an axis, or one more, keeps its own.
/// Returns an error if the network's input has a shape and it is not known where the grid begins.
llvm::Expected<std::optional<Grid>> choose_grid(const std::string& network, const GridFlags& flags);

/// Returns the voxels that `network`, a name or a JSON file, makes of points by its first layer. Returns
/// nothing if the network takes voxels.
llvm::Expected<std::optional<OwnVoxels>> find_own_voxels(const std::string& network);

/// Returns an error if a flag is given that chooses the voxels of a network, because this network makes its
/// own. The arguments are the values of --range and --voxel-size.
llvm::Error refuse_voxel_flags(const std::string& network, const OwnVoxels& own, const std::string& range,
                               const std::string& voxel_size);

/// Returns the number of batch items of the cloud, which is at least 1, or an error if it exceeds 2^31 - 1.
llvm::Expected<int64_t> find_batch_size(const VoxelCloud& cloud);

/// Sets needs_batch_size in `choice` and, if the network's input has a shape and there is a grid, its shape.
llvm::Error use_shape(const std::optional<Grid>& grid, NetworkChoice& choice);

/// Chooses the grid for the network and the flags of a command that reads one cloud, and sets it in `input`
/// and its shape in `network`. For a network that takes points, sets InputOptions::own_voxels in place of a
/// grid. Returns an error if flags that need a grid are given without one.
llvm::Error use_grid(NetworkChoice& network, InputOptions& input);

/// Chooses the grid for a network that a command runs on many clouds, and sets its shape in `network`.
/// `range` and `voxel_size` are the values of the flags; the voxel size belongs to the clouds' files without
/// a range. A network that takes points has no grid.
llvm::Expected<std::optional<Grid>> use_grid(NetworkChoice& network, const std::string& range,
                                             const std::string& voxel_size);

}  // namespace minuet::tool
