#include "runtime/abi/pyramid_options.h"

#include "codegen/choose/ops/space.h"
#include "runtime/abi/element_array.h"

namespace minuet {
namespace {

constexpr uint32_t kAllPurposes = 2 * MINUET_PURPOSE_EXPORT - 1;

// The sizes of one element in 0.3.0. They stay as they are when the structs grow.
constexpr std::size_t kFirstLevelBytes = 96, kFirstMapBytes = 64;
static_assert(sizeof(minuet_pyramid_level) >= kFirstLevelBytes &&
              sizeof(minuet_pyramid_map) >= kFirstMapBytes);

/// Returns InvalidArgument if the level has numbers that only levels with is_reached have.
llvm::Error check_not_reached(const minuet_pyramid_level& given) {
  const std::pair<const char*, const int32_t*> fields[] = {{"kernel_size", given.kernel_size},
                                                           {"dilation", given.dilation},
                                                           {"padding", given.padding},
                                                           {"shape", given.shape}};
  for (const auto& [name, numbers] : fields) {
    for (i32 a = 0; a < kMaxDim; ++a) {
      if (numbers[a] == 0) continue;
      return make_error(StatusCode::InvalidArgument,
                        "{0} of axis {1} is {2}, but is_reached is 0: set is_reached to 1, or {0} to 0", name,
                        a, numbers[a]);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<PyramidLevel> read_level(const minuet_pyramid_level& given, i32 ndim) {
  PyramidLevel level;
  level.parent = given.parent;
  level.capacity = given.capacity;
  level.slots = given.slots;
  MINUET_TRY(check_flags({{given.is_reached, "is_reached"}}));
  if (given.is_reached) {
    ReachSpec& reach = level.reach.emplace();
    MINUET_ASSIGN(reach.kernel_size, read_axes(given.kernel_size, ndim, "kernel_size"));
    MINUET_ASSIGN(reach.dilation, read_axes(given.dilation, ndim, "dilation"));
    MINUET_ASSIGN(reach.padding, read_cells(given.padding, ndim, "padding"));
    MINUET_ASSIGN(level.shape, read_set_shape(given.shape, ndim));
  } else {
    MINUET_TRY(check_not_reached(given));
  }
  MINUET_ASSIGN(level.stride, read_axes(given.stride, ndim, "stride"));
  return level;
}

/// Adds the level with the number `number`.
llvm::Error add_level(const ElementArray& levels, i32 number, PyramidDescription& description) {
  MINUET_ASSIGN(const minuet_pyramid_level given, read_element<minuet_pyramid_level>(levels, number));
  MINUET_ASSIGN(PyramidLevel level, read_level(given, description.ndim));
  description.levels.push_back(level);
  return llvm::Error::success();
}

// A purpose of several kinds of ops has as many rows.
const PyramidPurpose kPurposes[] = {
    {MINUET_PURPOSE_CONVOLUTION, "MINUET_PURPOSE_CONVOLUTION", false, &ConvolutionProblem::kKind},
    {MINUET_PURPOSE_TRANSPOSED_CONVOLUTION, "MINUET_PURPOSE_TRANSPOSED_CONVOLUTION", true,
     &ConvolutionProblem::kKind},
    {MINUET_PURPOSE_POOLING, "MINUET_PURPOSE_POOLING", false, &PoolingProblem::kKind},
    {MINUET_PURPOSE_POOLING, "MINUET_PURPOSE_POOLING", false, &SpaceToChannelProblem::kKind},
    {MINUET_PURPOSE_POOLING, "MINUET_PURPOSE_POOLING", false, &PoolingGradientProblem::kKind},
    {MINUET_PURPOSE_TRANSPOSED_POOLING, "MINUET_PURPOSE_TRANSPOSED_POOLING", true, &PoolingProblem::kKind},
    {MINUET_PURPOSE_TRANSPOSED_POOLING, "MINUET_PURPOSE_TRANSPOSED_POOLING", true,
     &PoolingGradientProblem::kKind},
    {MINUET_PURPOSE_TRANSPOSED_POOLING, "MINUET_PURPOSE_TRANSPOSED_POOLING", true,
     &ChannelToSpaceProblem::kKind},
};

/// Adds the map with the number `number`, and its purposes.
llvm::Error add_map(const ElementArray& maps, i32 number, PyramidDescription& description) {
  MINUET_ASSIGN(const minuet_pyramid_map given, read_element<minuet_pyramid_map>(maps, number));
  WindowProblem kernel;
  MINUET_TRY(read_kernel(given, description.ndim, kernel));
  description.maps.push_back(map_of(given.fine, given.coarse, kernel));
  if (given.purposes == 0 || given.purposes > kAllPurposes) {
    return make_error(StatusCode::InvalidArgument,
                      "purposes is {0}; it must be one or more of the bits of MINUET_PURPOSE_...",
                      given.purposes);
  }
  for (const PyramidPurpose& purpose : kPurposes) {
    if ((given.purposes & purpose.bit) == 0) continue;
    description.needs.push_back({number, purpose.transposed, purpose.kind});
  }
  if ((given.purposes & MINUET_PURPOSE_EXPORT) != 0) description.exported_maps.push_back(number);
  return llvm::Error::success();
}

llvm::Error read_levels_and_maps(const minuet_pyramid_options& given, PyramidDescription& description) {
  MINUET_TRY(check_list(given.levels, "levels", given.level_count, "level_count"));
  MINUET_TRY(check_pointer(given.levels, "levels"));
  MINUET_TRY(check_indexed_levels(given.level_count));
  MINUET_TRY(check_list(given.maps, "maps", given.map_count, "map_count"));
  ElementArray levels{given.levels, given.level_bytes, kFirstLevelBytes, "level_bytes"};
  ElementArray maps{given.maps, given.map_bytes, kFirstMapBytes, "map_bytes"};
  MINUET_TRY(check_elements<minuet_pyramid_level>(levels));
  MINUET_TRY(check_elements<minuet_pyramid_map>(maps));
  if (given.level_capacity) {
    return make_error(StatusCode::InvalidArgument,
                      "level_capacity is given without a network: each of `levels` has its own capacity");
  }
  if (given.level_slots) {
    return make_error(StatusCode::InvalidArgument,
                      "level_slots is given without a network: each of `levels` has its own slots");
  }
  for (i32 i = 0; i < given.level_count; ++i) {
    MINUET_TRY(annotate(add_level(levels, i, description), "level " + std::to_string(i)));
  }
  description.purposes = kPurposes;
  for (i32 i = 0; i < given.map_count; ++i) {
    MINUET_TRY(annotate(add_map(maps, i, description), "map " + std::to_string(i)));
  }
  return llvm::Error::success();
}

llvm::Error read_network_levels(const minuet_pyramid_options& given, const Program& program,
                                DescribeNetwork describe, PyramidDescription& description) {
  if (given.levels || given.maps || given.map_count != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "levels or maps are given beside a network, which has its own: leave them null and 0");
  }
  if (given.ndim != 0 && given.ndim != program.ndim) {
    return make_error(StatusCode::InvalidArgument, "ndim is {0}, but the network has {1} axes", given.ndim,
                      program.ndim);
  }
  MINUET_TRY(check_pointer(given.level_capacity, "level_capacity"));
  MINUET_TRY(check_level_count(given.level_count, static_cast<i32>(program.levels.size())));
  const std::vector<i64> capacities(given.level_capacity, given.level_capacity + given.level_count);
  MINUET_ASSIGN(const std::vector<i64> slots, read_slots(given.level_slots, given.level_count));
  return describe(capacities, slots, description);
}

/// Reads the options. `read_levels` reads the levels and the maps.
llvm::Expected<PyramidDescription> read_description(
    const minuet_pyramid_options& given, llvm::function_ref<llvm::Error(PyramidDescription&)> read_levels) {
  PyramidDescription description;
  MINUET_ASSIGN(description.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(description.batch_size, read_batch_size(given.batch_size));
  MINUET_TRY(read_levels(description));
  MINUET_TRY(
      check_flags({{given.keep_first_duplicate, "keep_first_duplicate"}, {given.has_bounds, "has_bounds"}}));
  description.keep_first_duplicate = given.keep_first_duplicate != 0;
  description.has_bounds = given.has_bounds != 0;
  if (description.has_bounds) {
    MINUET_ASSIGN(description.bounds, declared_bounds(description.ndim, given.least, given.greatest));
  }
  // A network may have more levels than keep_coordinates has bits.
  MINUET_TRY(Pyramid::check_count(description.levels));
  const std::size_t levels = description.levels.size();
  if (given.keep_coordinates >> levels != 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "keep_coordinates is {0}, which has a bit for a level that does not exist: there are {1}",
        given.keep_coordinates, levels);
  }
  for (std::size_t i = 0; i < levels; ++i) {
    description.levels[i].keeps_coordinates |= (given.keep_coordinates >> i & 1) != 0;
  }
  return description;
}

}  // namespace

llvm::Expected<PyramidDescription> read_pyramid_of_network(const minuet_pyramid_options& given,
                                                           const Program& program, DescribeNetwork describe) {
  return read_description(given, [&](PyramidDescription& description) {
    return read_network_levels(given, program, describe, description);
  });
}

llvm::Expected<PyramidDescription> read_pyramid_options(const minuet_pyramid_options& given) {
  if (!given.network) {
    return read_description(
        given, [&](PyramidDescription& description) { return read_levels_and_maps(given, description); });
  }
  const Program& program = given.network->store->plan().program;
  return read_pyramid_of_network(
      given, program,
      [&](llvm::ArrayRef<i64> capacities, llvm::ArrayRef<i64> slots, PyramidDescription& description) {
        return Pyramid::describe(program, capacities, slots, description);
      });
}

}  // namespace minuet
