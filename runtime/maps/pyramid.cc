#include "runtime/maps/pyramid.h"

#include <algorithm>

#include "runtime/engine/set_index.h"
#include "runtime/maps/coordinate_limits.h"

namespace minuet {
namespace {

llvm::Error check_number(const char* what, i64 number, i64 count) {
  if (number >= 0 && number < count) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "there is no {0} {1}: the pyramid has {2}, numbered from 0",
                    what, number, count);
}

/// Adds the levels of a network, and returns the number of the description's level for each of them, or -1
/// for a level that holds batch items.
llvm::Expected<std::vector<i32>> describe_levels(const Program& network, llvm::ArrayRef<i64> capacities,
                                                 llvm::ArrayRef<i64> slots, PyramidDescription& description) {
  std::vector<i32> numbers;
  for (std::size_t i = 0; i < network.levels.size(); ++i) {
    const LevelSpec& spec = network.levels[i];
    if (spec.holds_items) {
      numbers.push_back(-1);
      continue;
    }
    if (spec.is_made_in_run()) {
      return make_error(
          StatusCode::FailedPrecondition,
          "an op of the network makes level {0} in each run, but a pyramid has only levels that "
          "follow from the coordinates: run the plan with minuet_execution_create",
          i);
    }
    const i64 declared = slots_declared_for(i, slots);
    const auto same = static_cast<std::size_t>(find_same_level(network, network, static_cast<i32>(i)));
    if (same < i) {
      PyramidLevel& shared = description.levels[numbers[same]];
      shared.capacity = std::max(shared.capacity, capacities[i]);
      // 0 stands for the default, which suffices for any cloud.
      const bool both_declare = shared.slots != 0 && declared != 0;
      shared.slots = both_declare ? std::max(shared.slots, declared) : 0;
      shared.is_dense |= spec.is_dense;
      shared.keeps_coordinates |= spec.keeps_coordinates;
      numbers.push_back(numbers[same]);
      continue;
    }
    PyramidLevel level;
    level.parent = spec.parent < 0 ? -1 : numbers[spec.parent];
    level.other_parent = spec.has_two_parents() ? numbers[spec.other_parent] : -1;
    level.is_intersection = spec.is_intersection;
    level.reach = spec.reach;
    level.shape = spec.shape;
    level.capacity = capacities[i];
    level.slots = declared;
    level.is_dense = spec.is_dense;
    level.keeps_coordinates = spec.keeps_coordinates;
    for (i32 a = 0; a < network.ndim && spec.parent >= 0 && !spec.has_two_parents(); ++a) {
      const i32 own = spec.tensor_stride[a], of_parent = network.levels[spec.parent].tensor_stride[a];
      level.stride[a] = spec.reach && spec.reach->is_generative ? of_parent / own : own / of_parent;
    }
    numbers.push_back(static_cast<i32>(description.levels.size()));
    description.levels.push_back(level);
  }
  return numbers;
}

/// Reads the tensor stride of a level, whose parents are known. Messages call the level by `name`.
llvm::Expected<AxisArray> tensor_stride_of(const Program& program, const PyramidLevel& level,
                                           const std::string& name) {
  if (level.is_intersection) {
    AxisArray multiple;
    const auto wide = common_multiple(program.levels[level.parent].tensor_stride,
                                      program.levels[level.other_parent].tensor_stride);
    std::copy(wide.begin(), wide.end(), multiple.begin());
    return multiple;
  }
  if (level.other_parent >= 0) {
    return common_stride(program.levels[level.parent].tensor_stride,
                         program.levels[level.other_parent].tensor_stride);
  }
  if (level.reach && level.reach->is_generative && level.parent >= 0) {
    auto finer = finer_stride(program.levels[level.parent].tensor_stride, level.stride, program.ndim);
    if (!finer) return annotate(finer.takeError(), name);
    return finer;
  }
  AxisArray tensor_stride{1, 1, 1, 1};
  for (i32 a = 0; a < kMaxDim; ++a) {
    const i32 stride = level.stride[a];
    const i64 parent_stride = level.parent < 0 ? 1 : program.levels[level.parent].tensor_stride[a];
    const bool is_fixed = level.parent < 0 || a >= program.ndim;
    if (stride < 1 || parent_stride * stride > kMostCells || (is_fixed && stride > 1)) {
      return make_error(StatusCode::InvalidArgument,
                        "{0}, axis {1}: the stride is {2}; it must be 1 on level 0 and on unused axes, and "
                        "otherwise 1 or more, with tensor strides of at most 2^24",
                        name, a, stride);
    }
    tensor_stride[a] = static_cast<i32>(parent_stride * stride);
  }
  return tensor_stride;
}

}  // namespace

llvm::Expected<std::shared_ptr<const Pyramid>> Pyramid::create(PyramidDescription description) {
  std::shared_ptr<Pyramid> pyramid(new Pyramid());
  pyramid->description_ = std::move(description);
  MINUET_TRY(pyramid->add_levels());
  MINUET_TRY(pyramid->add_maps());
  MINUET_TRY(pyramid->check_needs());
  return std::shared_ptr<const Pyramid>(std::move(pyramid));
}

llvm::Error Pyramid::check_count(llvm::ArrayRef<PyramidLevel> levels) {
  if (!levels.empty() && levels.size() <= kMostIndexedLevels) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "the pyramid has {0} levels; it must have 1 to {1}",
                    levels.size(), kMostIndexedLevels);
}

llvm::Error Pyramid::add_levels() {
  const std::vector<PyramidLevel>& levels = description_.levels;
  MINUET_TRY(check_count(levels));
  program_.ndim = description_.ndim;
  options_.method = MapMethod::Indexed;
  options_.keep_first_duplicate = description_.keep_first_duplicate;
  options_.has_bounds = description_.has_bounds;
  options_.bounds = description_.bounds;
  options_.is_stateless = true;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const std::string name = "level " + std::to_string(i);
    LevelSpec level;
    level.parent = levels[i].parent;
    level.other_parent = levels[i].other_parent;
    level.is_intersection = levels[i].is_intersection;
    if (i == 0 ? level.parent != -1 : level.parent < 0 || level.parent >= static_cast<i32>(i)) {
      return make_error(StatusCode::InvalidArgument, "the parent of {0} is {1}; it must be {2}", name,
                        level.parent, i == 0 ? "-1, because this is the caller's set" : "an earlier level");
    }
    if (level.other_parent < -1 || level.other_parent >= static_cast<i32>(i)) {
      return make_error(
          StatusCode::InvalidArgument,
          "the other parent of {0} is {1}; it must be an earlier level if the level is a union, "
          "and -1 otherwise",
          name, level.other_parent);
    }
    if (level.has_two_parents() && levels[i].reach) {
      return make_error(StatusCode::InvalidArgument,
                        "{0} is a union of two levels, but it has a reach too: give it the other parent -1, "
                        "or no reach",
                        name);
    }
    MINUET_ASSIGN(level.tensor_stride, tensor_stride_of(program_, levels[i], name));
    level.reach = levels[i].reach;
    level.shape = levels[i].shape;
    level.keeps_coordinates = level.is_dense = levels[i].is_dense;
    if (i == 0 && level.reach) {
      return make_error(
          StatusCode::InvalidArgument,
          "level 0 is the caller's set, which is not reached from another one: leave is_reached 0");
    }
    if (level.reach) {
      MINUET_TRY(annotate(check_reach(program_.ndim, *level.reach, levels[i].stride,
                                      program_.levels[level.parent].tensor_stride),
                          name));
    }
    program_.levels.push_back(level);
    if (const i32 same = find_level(program_, static_cast<i32>(i)); same < static_cast<i32>(i)) {
      return make_error(StatusCode::InvalidArgument,
                        "{0} has the same coordinates as level {1}: use level {1}", name, same);
    }
    if (levels[i].capacity < 1) {
      return make_error(StatusCode::InvalidArgument, "the capacity of {0} is {1}; it must be 1 or more", name,
                        levels[i].capacity);
    }
    MINUET_TRY(annotate(check_coordinate_count(levels[i].capacity), name));
    MINUET_TRY(annotate(check_slots(levels[i].slots), name));
    options_.level_capacity.push_back(levels[i].capacity);
    options_.level_slots.push_back(levels[i].slots);
  }
  options_.batch_size = description_.batch_size;
  MINUET_TRY(limit_coordinates(program_, options_));
  const std::vector<SetSpec> sets = sets_to_make(program_, options_);
  return describe_index(program_.ndim, bounds_to_index(program_.ndim, options_, sets), sets).takeError();
}

llvm::Error Pyramid::add_maps() {
  for (std::size_t i = 0; i < description_.maps.size(); ++i) {
    const MapSpec& map = description_.maps[i];
    const std::string name = "map " + std::to_string(i);
    for (const i32 level : {map.fine, map.coarse})
      MINUET_TRY(annotate(check_number("level", level, levels()), name));
    MINUET_TRY(annotate(check_kernel(program_.ndim, {map.kernel_size, map.dilation, map.padding, map.offsets},
                                     program_.levels[map.fine].tensor_stride, capacity(map.coarse)),
                        name));
    if (const i32 same = find_map(map); same >= 0) {
      return make_error(StatusCode::InvalidArgument, "{0} is the same as map {1}: give map {1} both purposes",
                        name, same);
    }
    program_.maps.push_back(map);
  }
  i64 most_rows = 0;
  for (const PyramidLevel& level : description_.levels) most_rows = std::max(most_rows, level.capacity);
  for (std::size_t i = 0; i < program_.maps.size(); ++i) {
    const i64 volume = program_.maps[i].volume();
    if (most_rows <= most_map_rows(volume)) continue;
    return make_error(
        StatusCode::OutOfRange,
        "map {0}: its {1} offsets times {2} rows, the largest capacity of a level, are more than "
        "2^31 - 1: declare smaller capacities",
        i, volume, most_rows);
  }
  return llvm::Error::success();
}

llvm::Error Pyramid::check_needs() const {
  const auto count = static_cast<i64>(program_.maps.size());
  for (const PyramidNeed& need : description_.needs) {
    MINUET_TRY(check_number("map", need.map, count));
  }
  for (const i32 map : description_.exported_maps) {
    MINUET_TRY(check_number("map", map, count));
    if (!program_.maps[map].is_identity()) continue;
    return make_error(StatusCode::InvalidArgument,
                      "the pairs of map {0} cannot be exported, because it leads from each row to itself",
                      map);
  }
  return llvm::Error::success();
}

llvm::Error Pyramid::describe(const Program& network, llvm::ArrayRef<i64> capacities,
                              llvm::ArrayRef<i64> slots, PyramidDescription& description) {
  if (network.takes_maps) {
    return make_error(
        StatusCode::InvalidArgument,
        "the plan is of a single op, which has no levels of its own: describe the levels and maps");
  }
  description.ndim = network.ndim;
  MINUET_ASSIGN(const std::vector<i32> levels, describe_levels(network, capacities, slots, description));
  std::vector<i32> maps;
  for (MapSpec map : network.maps) {
    if (levels[map.coarse] < 0) {
      // A batch item is the only neighbour of itself, so no map is made.
      maps.push_back(-1);
      continue;
    }
    map.fine = levels[map.fine];
    map.coarse = levels[map.coarse];
    maps.push_back(static_cast<i32>(llvm::find(description.maps, map) - description.maps.begin()));
    if (maps.back() == static_cast<i32>(description.maps.size())) description.maps.push_back(map);
  }
  for (const ProgramLayer& layer : network.layers) {
    if (layer.map < 0 || maps[layer.map] < 0) continue;
    const PyramidNeed need{maps[layer.map], layer.is_transposed(), &layer.problem.kind()};
    if (!need.kind->form_within_capacities) {
      return make_error(StatusCode::Unimplemented, "maps for layer {0} cannot be made in advance",
                        layer.name);
    }
    if (!llvm::is_contained(description.needs, need)) description.needs.push_back(need);
  }
  return llvm::Error::success();
}

std::vector<ViewNeed> Pyramid::view_needs(llvm::StringRef arch) const {
  std::vector<ViewNeed> views;
  const auto add = [&](const ViewNeed& view) {
    const auto is_same = [&](const ViewNeed& other) {
      return other.map == view.map && other.transposed == view.transposed && other.form == view.form;
    };
    if (llvm::none_of(views, is_same)) views.push_back(view);
  };
  for (const PyramidNeed& need : description_.needs) {
    add({need.map, need.transposed, need.kind->form_within_capacities(arch)});
  }
  // A list of pairs is made from the map's own table of rows.
  for (const i32 map : description_.exported_maps) add({map, false, ViewForm::Rows});
  return views;
}

i32 Pyramid::find_level(const Program& program, i32 level) const {
  return find_same_level(program_, program, level);
}

i32 Pyramid::find_map(const MapSpec& map) const {
  const auto found = llvm::find(program_.maps, map);
  return found == program_.maps.end() ? -1 : static_cast<i32>(found - program_.maps.begin());
}

PlacedPyramid::PlacedPyramid(std::shared_ptr<const Pyramid> pyramid, Engine& engine, llvm::StringRef arch)
    : pyramid_(std::move(pyramid)),
      engine_(engine),
      needs_(pyramid_->view_needs(arch)),
      views_(pyramid_->program(), engine, needs_, OrderChoice().order, /*has_capacities=*/true),
      maps_(pyramid_->program(), pyramid_->map_options(), engine, views_),
      coordinates_(pyramid_->program().levels.size()) {
  const std::vector<i64>& rows = pyramid_->map_options().level_capacity;
  maps_.set_capacity(*std::max_element(rows.begin(), rows.end()));
}

llvm::Expected<PlacedPyramid::Bytes> PlacedPyramid::measure() {
  Bytes bytes;
  MINUET_TRY(place(Placement::of_stand_ins(0), Placement::of_stand_ins(0), bytes));
  return bytes;
}

llvm::Error PlacedPyramid::place(void* buffer, void* workspace) {
  Bytes used;
  // The buffer is divided into other parts if the workspace has no index. So a workspace that is not given is
  // placed at stand-in addresses, and the buffer keeps the division that build() has used.
  return place(
      Placement(static_cast<char*>(buffer), /*idle=*/false),
      workspace ? Placement(static_cast<char*>(workspace), /*idle=*/false) : Placement::of_stand_ins(0),
      used);
}

llvm::Error PlacedPyramid::place(Placement buffer, Placement workspace, Bytes& used) {
  const PyramidDescription& description = pyramid_->description();
  maps_.place(buffer);
  for (std::size_t i = 0; i < coordinates_.size(); ++i) {
    if (!description.levels[i].keeps_coordinates) continue;
    coordinates_[i] = buffer.take<i32>(description.levels[i].capacity * (1 + pyramid_->ndim()));
  }
  maps_.place_positions(buffer, description.exported_maps);
  maps_.place_workspace(workspace);
  views_.begin();
  for (const ViewNeed& need : needs_) {
    const MapSpec& spec = pyramid_->program().maps[need.map];
    MapUse use{need.map, need.transposed, maps_.map(need.map), coords(spec.fine), coords(spec.coarse)};
    use.view.sources = pyramid_->capacity(spec.fine);
    use.view.queries = pyramid_->capacity(spec.coarse);
    MINUET_TRY(views_.add(use, need.form));
  }
  views_.place_views(buffer);
  views_.place_workspace(workspace);
  used = {buffer.bytes(), workspace.bytes()};
  return llvm::Error::success();
}

Coords PlacedPyramid::coords(i32 level) const {
  return {nullptr, maps_.count(level), pyramid_->capacity(level), KeyType::U64, nullptr};
}

llvm::Error PlacedPyramid::build(const i32* coordinates, const i32* given_count, i64 most) {
  MINUET_TRY(maps_.enqueue(coordinates, given_count, most));
  MINUET_TRY(make_views());
  for (i32 i = 0; i < pyramid_->levels(); ++i) {
    if (!coordinates_[i]) continue;
    MINUET_TRY(engine_.fill_words(coordinates_[i], 0, pyramid_->capacity(i) * (1 + pyramid_->ndim())));
    MINUET_TRY(maps_.unpack(i, coordinates_[i]));
  }
  return llvm::Error::success();
}

/// Counts the pairs of the maps whose pairs are exported, and makes the views of all maps. Both only read the
/// tables of the maps, and consist of many short kernels, so a GPU runs them side by side.
llvm::Error PlacedPyramid::make_views() {
  const auto count_pairs = [&](i32 map) {
    return engine_.maps().count_pairs(coords(pyramid_->program().maps[map].coarse), maps_.map(map));
  };
  const llvm::ArrayRef<i32> maps = pyramid_->description().exported_maps;
  const auto entries = [&](i32 map) {
    const MapSpec& spec = pyramid_->program().maps[map];
    return spec.volume() * pyramid_->capacity(spec.coarse);
  };
  // The first count prepares memory that the views use too, so it is not in the branch. It is the shortest.
  const auto* const first =
      std::min_element(maps.begin(), maps.end(), [&](i32 a, i32 b) { return entries(a) < entries(b); });
  if (first != maps.end()) MINUET_TRY(count_pairs(*first));
  if (maps.size() > 1) {
    MINUET_TRY(engine_.begin_branch());
    for (const i32& map : maps) {
      if (&map != first) MINUET_TRY(count_pairs(map));
    }
    engine_.end_branch();
  }
  MINUET_TRY(views_.make_views());
  return engine_.join_branch();
}

llvm::Error PlacedPyramid::copy_coordinates(i32 level, i32* coordinates) const {
  const i64 words = pyramid_->capacity(level) * (1 + pyramid_->ndim());
  return engine_.copy(coordinates, coordinates_[level], words * static_cast<i64>(sizeof(i32)));
}

llvm::Error PlacedPyramid::export_pairs(i32 map, i32* pairs, i64 capacity, i32* count) {
  return engine_.maps().compact_pairs(pairs_request(map, pairs, capacity, count, /*in_set_order=*/false));
}

PairsRequest PlacedPyramid::pairs_request(i32 map, i32* pairs, i64 capacity, i32* count,
                                          bool in_set_order) const {
  const MapSpec& spec = pyramid_->program().maps[map];
  const auto numbers_of = [&](i32 level) {
    return level == 0 && !in_set_order ? maps_.source_row() : nullptr;
  };
  PairsRequest request = PairsRequest::side_by_side(pairs, capacity, count);
  request.map = &maps_.map(map);
  request.query_count = maps_.count(spec.coarse);
  request.most_queries = pyramid_->capacity(spec.coarse);
  request.source_numbers = numbers_of(spec.fine);
  request.query_numbers = numbers_of(spec.coarse);
  return request;
}

}  // namespace minuet
