#include "tools/minuet/library/networks.h"

#include <algorithm>
#include <limits>

#include "codegen/base/json_text.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/wrong_file.h"

namespace minuet::tool {
namespace {

/// Returns the description of a network. It is null if the text is not JSON, because the library reports what
/// is wrong with it.
llvm::Expected<llvm::json::Value> read_description(const std::string& network) {
  std::string text;
  if (const minuet_shipped_network_info* const shipped = find_shipped(network)) {
    text = shipped->description;
  } else {
    llvm::Expected<std::string> read = read_json_text(network, "a network description");
    if (!read) return read.takeError();
    text = std::move(*read);
  }
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (value) return value;
  llvm::consumeError(value.takeError());
  return nullptr;
}

/// Returns the field "shape" of a description, or nothing if the network's input has no shape.
std::optional<std::vector<int64_t>> shape_of(const llvm::json::Value& description) {
  std::optional<std::vector<int64_t>> shape;
  const llvm::json::Object* const root = description.getAsObject();
  const llvm::json::Array* const cells = root ? root->getArray("shape") : nullptr;
  if (cells == nullptr) return shape;
  shape.emplace();
  for (const llvm::json::Value& one : *cells) {
    const auto count = one.getAsInteger();
    shape->push_back(count ? *count : 0);
  }
  return shape;
}

/// Returns true if a layer of the described network needs to know the number of batch items.
bool needs_items(const llvm::json::Value& description) {
  const llvm::json::Object* const root = description.getAsObject();
  const llvm::json::Array* const layers = root ? root->getArray("layers") : nullptr;
  return layers && std::any_of(layers->begin(), layers->end(), [](const llvm::json::Value& layer) {
           const llvm::json::Object* const fields = layer.getAsObject();
           const auto op = fields ? fields->getString("op") : llvm::StringRef();
           return op == llvm::StringRef("global_pool") || op == llvm::StringRef("to_dense") ||
                  op == llvm::StringRef("birds_eye");
         });
}

/// Sets three numbers from an array of a description. Elements that are no numbers leave theirs unchanged,
/// because the library reports them.
void read_three(const llvm::json::Array* array, std::array<double, 3>& numbers) {
  for (size_t axis = 0; array && axis < 3 && axis < array->size(); ++axis) {
    if (const auto number = (*array)[axis].getAsNumber()) numbers[axis] = *number;
  }
}

/// Sets the shape of the network's input (Grid::shape). A shipped network may have more cells than the range.
/// A described one has the cells of the range, or one more, as the extra cell that some trained networks
/// have.
llvm::Error fill_shape(const std::string& network, const std::vector<int64_t>& described,
                       const minuet_shipped_network_info* shipped, Grid& grid) {
  for (size_t axis = 0; axis < 3; ++axis) {
    const int32_t cells = grid.cells[axis];
    if (shipped) {
      grid.shape[axis] = cells + shipped->extra_cells[axis];
    } else if (described[axis] == cells || described[axis] == cells + 1) {
      grid.shape[axis] = static_cast<int32_t>(described[axis]);
    } else {
      return bad_input(
          "--range and --voxel-size give {0} cells along {1}, but the network '{2}' has a shape of {3}: "
          "change --range or --voxel-size",
          cells, "xyz"[axis], network, described[axis]);
    }
  }
  return llvm::Error::success();
}

}  // namespace

const std::vector<minuet_shipped_network_info>& shipped_networks() {
  static const std::vector<minuet_shipped_network_info> networks = [] {
    std::vector<minuet_shipped_network_info> all;
    for (int32_t i = 0;; ++i) {
      minuet_shipped_network_info info = {};
      info.struct_size = sizeof(info);
      if (minuet_query_shipped_network(i, &info) != MINUET_OK) return all;
      all.push_back(info);
    }
  }();
  return networks;
}

const minuet_shipped_network_info* find_shipped(llvm::StringRef name) {
  for (const minuet_shipped_network_info& network : shipped_networks()) {
    if (name == network.name) return &network;
  }
  return nullptr;
}

std::string shipped_names() {
  std::string names;
  for (const minuet_shipped_network_info& network : shipped_networks())
    names += (names.empty() ? "" : ", ") + std::string(network.name);
  return names;
}

llvm::Expected<std::optional<OwnVoxels>> find_own_voxels(const std::string& network) {
  MINUET_TRY(check_network_name(network));
  MINUET_ASSIGN(const llvm::json::Value description, read_description(network));
  const llvm::json::Object* const root = description.getAsObject();
  const llvm::json::Array* const layers = root ? root->getArray("layers") : nullptr;
  const llvm::json::Object* const first =
      layers && !layers->empty() ? layers->front().getAsObject() : nullptr;
  if (!first || first->getString("op") != llvm::StringRef("voxelize")) return std::nullopt;
  OwnVoxels own;
  read_three(first->getArray("voxel_size"), own.voxel_size);
  read_three(first->getArray("low"), own.low);
  const llvm::json::Array* const range = first->getArray("range");
  own.has_range = range != nullptr;
  if (range && range->size() == 2) {
    read_three((*range)[0].getAsArray(), own.low);
    read_three((*range)[1].getAsArray(), own.high);
  }
  return own;
}

llvm::Error refuse_voxel_flags(const std::string& network, const OwnVoxels& own, const std::string& range,
                               const std::string& voxel_size) {
  const char* const flag = !range.empty() ? "--range" : !voxel_size.empty() ? "--voxel-size" : nullptr;
  if (!flag) return llvm::Error::success();
  return bad_input(
      "{0} is for networks that take voxels, but '{1}' takes points and makes voxels of {2} m itself: omit "
      "{0}, or change the layer voxelize in a copy of its description (share/doc/minuet/networks)",
      flag, network, size_text(own.voxel_size));
}

llvm::Expected<std::optional<Grid>> choose_grid(const std::string& network, const GridFlags& flags) {
  MINUET_TRY(check_network_name(network));
  const minuet_shipped_network_info* const shipped = find_shipped(network);
  MINUET_ASSIGN(const llvm::json::Value description, read_description(network));
  const std::optional<std::vector<int64_t>> described = shape_of(description);
  const bool has_default = shipped && shipped->voxel_size[0] > 0;
  if (flags.range.empty() && !described) return std::nullopt;
  if (described && described->size() != 3 && (flags.has_points || !flags.range.empty())) {
    return bad_input(
        "the network '{0}' has {1} axes, but points and --range are for networks of three: give voxels with "
        "--coordinates",
        network, described->size());
  }
  if (flags.range.empty() && !has_default) {
    if (!flags.has_points) return std::nullopt;
    return bad_input(
        "the network '{0}' has a shape, so the place of its cells must be known: give --range "
        "x0,y0,z0,x1,y1,z1 and --voxel-size",
        network);
  }
  Position low = {}, high = {};
  VoxelSize voxel_size = cubic(0.1);
  for (size_t axis = 0; axis < 3 && has_default; ++axis) {
    low[axis] = shipped->range_low[axis];
    high[axis] = shipped->range_high[axis];
    voxel_size[axis] = shipped->voxel_size[axis];
  }
  if (!flags.range.empty()) MINUET_TRY(parse_range(flags.range, low, high));
  if (!flags.voxel_size.empty()) {
    MINUET_ASSIGN(voxel_size, parse_voxel_size(flags.voxel_size));
  }
  MINUET_ASSIGN(Grid grid, make_grid(low, high, voxel_size));
  if (described) MINUET_TRY(fill_shape(network, *described, shipped, grid));
  return grid;
}

llvm::Expected<int64_t> find_batch_size(const VoxelCloud& cloud) {
  constexpr int32_t kGreatest = std::numeric_limits<int32_t>::max() - 1;
  int64_t size = 1;
  const size_t columns = static_cast<size_t>(1 + cloud.ndim);
  for (size_t i = 0; i < cloud.coordinates.size(); i += columns) {
    if (cloud.coordinates[i] > kGreatest) {
      return bad_input(
          "voxel {0} has the batch index {1}, but a network whose input has a shape, or that pools batch "
          "items, takes indices from 0 to {2}: number the batch items from 0",
          i / columns, cloud.coordinates[i], kGreatest);
    }
    size = std::max(size, int64_t{cloud.coordinates[i]} + 1);
  }
  return size;
}

llvm::Error use_shape(const std::optional<Grid>& grid, NetworkChoice& choice) {
  MINUET_ASSIGN(const llvm::json::Value description, read_description(choice.network));
  const std::optional<std::vector<int64_t>> described = shape_of(description);
  choice.needs_batch_size = described.has_value() || needs_items(description);
  if (described && grid) choice.shape.assign(grid->shape.begin(), grid->shape.end());
  return llvm::Error::success();
}

llvm::Error use_grid(NetworkChoice& network, InputOptions& input) {
  MINUET_ASSIGN(input.own_voxels, find_own_voxels(network.network));
  if (input.own_voxels) {
    MINUET_TRY(refuse_voxel_flags(network.network, *input.own_voxels, input.range, input.voxel_size));
    if (input.limits.points > 0 || input.limits.voxels > 0) {
      return bad_input(
          "--max-points and --max-voxels are for networks that take voxels, but '{0}' makes voxels itself: "
          "set most_points_per_voxel and most_voxels of the layer voxelize in a copy of its description",
          network.network);
    }
    if (input.own_voxels->has_range && input.origin) {
      return bad_input(
          "--origin moves the points, but the network '{0}' has a range at a fixed place: omit --origin",
          network.network);
    }
    return use_shape(std::nullopt, network);
  }
  MINUET_ASSIGN(input.grid,
                choose_grid(network.network, {input.range, input.voxel_size, input.coordinates.empty()}));
  if (input.grid && input.origin) {
    return bad_input(
        "--origin is for networks whose input has no shape: voxels of '{0}' are counted from the corner of "
        "--range; omit --origin",
        network.network);
  }
  const bool has_limits = input.limits.points > 0 || input.limits.voxels > 0;
  if (has_limits && (!input.grid || !input.coordinates.empty())) {
    return bad_input(
        "--max-points and --max-voxels limit the points and voxels in a --range: add --range and a cloud of "
        "points");
  }
  return use_shape(input.grid, network);
}

llvm::Expected<std::optional<Grid>> use_grid(NetworkChoice& network, const std::string& range,
                                             const std::string& voxel_size) {
  MINUET_ASSIGN(const std::optional<OwnVoxels> own, find_own_voxels(network.network));
  if (own) {
    MINUET_TRY(refuse_voxel_flags(network.network, *own, range, voxel_size));
    MINUET_TRY(use_shape(std::nullopt, network));
    return std::nullopt;
  }
  MINUET_ASSIGN(const std::optional<Grid> grid,
                choose_grid(network.network, {range, range.empty() ? std::string() : voxel_size, true}));
  MINUET_TRY(use_shape(grid, network));
  return grid;
}

}  // namespace minuet::tool
