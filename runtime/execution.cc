#include "runtime/execution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/alignment.h"
#include "runtime/rounding.h"

namespace minuet {
namespace {

constexpr i64 kReportHead = 1;  // the status word

}  // namespace

NetworkExecution::NetworkExecution(std::shared_ptr<const NetworkPlan> plan,
                                   std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options)
    : plan_(std::move(plan)),
      loaded_(std::move(loaded)),
      options_(options),
      arena_(loaded_->device, options.workspace, options.workspace_bytes),
      levels_(plan_->program.levels.size()),
      slots_(plan_->program.slots.size()) {}

llvm::Expected<std::unique_ptr<NetworkExecution>> NetworkExecution::create_unplaced(
    std::shared_ptr<const NetworkPlan> plan, std::shared_ptr<const LoadedPlan> loaded,
    const ExecutionOptions& options) {
  std::unique_ptr<NetworkExecution> execution(
      new NetworkExecution(std::move(plan), std::move(loaded), options));
  MINUET_ASSIGN(execution->engine_, execution->loaded_->device->create_engine(execution->plan_->engine));
  MINUET_TRY(execution->add_layers());
  execution->number_maps();
  MINUET_TRY(execution->check_count(options.max_points));
  return execution;
}

llvm::Expected<std::unique_ptr<NetworkExecution>> NetworkExecution::create(
    std::shared_ptr<const NetworkPlan> plan, std::shared_ptr<const LoadedPlan> loaded,
    const ExecutionOptions& options) {
  MINUET_ASSIGN(std::unique_ptr<NetworkExecution> execution,
                create_unplaced(std::move(plan), std::move(loaded), options));
  MINUET_TRY(execution->allocate_host());
  MINUET_TRY(execution->engine_->begin(nullptr));
  MINUET_TRY(execution->ensure_capacity(std::max<i64>(options.max_points, 1)));
  return execution;
}

/// Every level as large as the input, every map's pairs in groups as padded as they may get.
llvm::Expected<i64> NetworkExecution::workspace_bound(std::shared_ptr<const NetworkPlan> plan,
                                                      std::shared_ptr<const LoadedPlan> loaded, i64 points,
                                                      double neighbours) {
  ExecutionOptions options;
  options.max_points = points;
  MINUET_ASSIGN(std::unique_ptr<NetworkExecution> execution,
                create_unplaced(std::move(plan), std::move(loaded), options));
  execution->capacity_ = std::max<i64>(points, 1);
  for (Level& level : execution->levels_) level.rows = execution->capacity_;
  const GroupingChoice& grouping = execution->plan_->grouping;
  for (Map& map : execution->maps_) {
    const i64 volume = map.view.geometry.volume;
    const double pairs = std::min(neighbours, static_cast<double>(volume)) * static_cast<double>(points);
    map.groups.gathered_rows =
        static_cast<i64>(pairs * (1 + grouping.padding_threshold)) + volume * grouping.height_step;
    map.groups.buffer_rows = map.groups.gathered_rows + points;
  }
  return execution->place_fixed(nullptr) + execution->place_tensors(nullptr);
}

llvm::Error NetworkExecution::add_layers() {
  for (std::size_t i = 0; i < plan_->layers.size(); ++i) {
    llvm::Expected<i32> number = engine_->add_convolution(plan_->layers[i].choice, loaded_->weights[i]);
    if (!number) return annotate(number.takeError(), plan_->program.layers[i].name);
    convolutions_.push_back(*number);
  }
  MINUET_ASSIGN(permute_input_, engine_->add_permute_rows(plan_->permute_input));
  MINUET_ASSIGN(permute_output_, engine_->add_permute_rows(plan_->permute_output));
  MINUET_ASSIGN(permute_coordinates_, engine_->add_permute_rows(plan_->permute_coordinates));
  return llvm::Error::success();
}

/// Geometry, direct offset and places in the report and the tables: the same for every cloud.
void NetworkExecution::number_maps() {
  const NetworkProgram& program = plan_->program;
  report_words_ = kReportHead + static_cast<i64>(program.levels.size());
  for (const MapSpec& spec : program.maps) {
    Map map;
    map.view.geometry =
        make_geometry(program.ndim, spec.kernel_size, spec.dilation, program.levels[spec.fine].tensor_stride);
    const i32 volume = map.view.geometry.volume;
    map.direct_offset = direct_offset(spec.fine == spec.coarse, program.dtype, map.view.geometry);
    map.groups = GroupPlan(volume);
    map.report_offset = report_words_;
    map.table_offset = table_words_;
    report_words_ += volume;
    table_words_ += static_cast<i64>(kGroupTables) * volume;
    maps_.push_back(std::move(map));
  }
}

llvm::Error NetworkExecution::allocate_host() {
  auto words = [&](i64 count) { return engine_->allocate_pinned(count * static_cast<i64>(sizeof(i32))); };
  MINUET_ASSIGN(void* report, words(report_words_));
  MINUET_ASSIGN(void* bounds, words(kBoundsWords));
  MINUET_ASSIGN(void* tables, words(table_words_));
  host_report_ = static_cast<i32*>(report);
  host_bounds_ = static_cast<i32*>(bounds);
  host_tables_ = static_cast<i32*>(tables);
  return llvm::Error::success();
}

MapLimits NetworkExecution::map_limits(KeyType key) const {
  MapLimits limits{key, capacity_, static_cast<i32>(levels_.size()), static_cast<i32>(maps_.size()), 1};
  for (const Map& map : maps_) limits.max_volume = std::max(limits.max_volume, map.view.geometry.volume);
  return limits;
}

i64 NetworkExecution::place_fixed(char* base) {
  const NetworkProgram& program = plan_->program;
  Placement place(base);
  bounds_words_ = place.take<i32>(kBoundsWords);
  report_ = place.take<i32>(report_words_);
  tables_ = place.take<i32>(table_words_);
  identity_ = place.take<i32>(capacity_);
  source_row_ = place.take<i32>(capacity_);
  row_of_ = place.take<i32>(capacity_);
  coordinates_ = place.take<i32>(capacity_ * (1 + program.ndim));
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].coords = {place.take<u64>(capacity_), base ? report_ + kReportHead + i : nullptr, capacity_};
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    MapView& view = maps_[i].view;
    view.counts = base ? report_ + maps_[i].report_offset : nullptr;
    const i32* tables = base ? tables_ + maps_[i].table_offset : nullptr;
    const i32 volume = view.geometry.volume;
    view.tables = tables_at(tables, volume);
    if (program.maps[i].is_identity()) {
      view.source_table = view.query_table = identity_;
      continue;
    }
    view.map = view.query_table = place.take<i32>(volume * capacity_);
    view.positions = place.take<i32>(volume * capacity_ + 1);
    view.source_table = place.take<i32>(volume * capacity_);
  }
  map_workspace_ = place.take<char>(engine_->map_workspace_bytes(map_limits(KeyType::U64)));
  engine_workspace_ = place.take<char>(engine_->workspace_bytes());
  return place.bytes();
}

/// Grows the arena where that is needed and places the fixed part anew. Work of an earlier call may
/// still use the memory, so it is waited for first; a failure leaves nothing placed.
llvm::Error NetworkExecution::reserve(i64 bytes) {
  if (bytes <= arena_.bytes() && identity_) return llvm::Error::success();
  llvm::Error error = engine_->wait();
  if (!error) error = arena_.reserve(bytes);
  if (!error) error = place_anew();
  if (error) {
    capacity_ = 0;
    identity_ = nullptr;
  }
  return error;
}

llvm::Error NetworkExecution::place_anew() {
  place_fixed(arena_.data());
  MINUET_TRY(engine_->set_workspace(engine_workspace_));
  std::vector<i32> identity(static_cast<std::size_t>(capacity_));
  std::iota(identity.begin(), identity.end(), 0);
  return loaded_->device->upload(identity_, identity.data(), capacity_ * static_cast<i64>(sizeof(i32)));
}

llvm::Error NetworkExecution::check_count(i64 count) const {
  MINUET_TRY(check_coordinate_count(count));
  const i64 most = most_map_rows(map_limits(KeyType::U64).max_volume);
  if (count <= most) return llvm::Error::success();
  return make_error(
      StatusCode::OutOfRange,
      "{0} coordinates are more than the {1} that the network's kernels allow in one cloud: split the "
      "batch",
      count, most);
}

/// Room for `count` coordinates; a growing arena of ours gets some slack for the next, larger cloud.
llvm::Error NetworkExecution::ensure_capacity(i64 count) {
  if (count <= capacity_) return llvm::Error::success();
  const i64 most = std::min(kMaxCoordinates, most_map_rows(map_limits(KeyType::U64).max_volume));
  const bool exact = capacity_ == 0 || options_.workspace;
  capacity_ = exact ? count : std::min(with_slack(count), most);
  fixed_bytes_ = place_fixed(nullptr);  // leaves identity_ null: reserve places everything
  return reserve(fixed_bytes_);
}

llvm::Error NetworkExecution::prepare(const i32* coordinates, i64 count, void* stream) {
  MINUET_TRY(check_count(count));
  MINUET_TRY(engine_->begin(stream));
  prepared_ = false;
  MINUET_TRY(ensure_capacity(std::max<i64>(count, 1)));
  MINUET_TRY(find_layout(coordinates, count));
  for (bool fits = false; !fits;) {
    MINUET_TRY(enqueue_maps(coordinates, count));
    MINUET_TRY(read_report(count));
    MINUET_TRY(group_maps());
    const i64 needed = fixed_bytes_ + place_tensors(nullptr);
    fits = needed <= arena_.bytes();
    if (!fits) MINUET_TRY(reserve(needed));
  }
  place_tensors(arena_.data() + fixed_bytes_);
  MINUET_TRY(enqueue_tables());
  MINUET_TRY(prepare_layers());
  MINUET_TRY(engine_->end());
  count_ = count;
  prepared_ = true;
  return llvm::Error::success();
}

/// Declared bounds need no read-back; others cost the first of the two waits.
llvm::Error NetworkExecution::find_layout(const i32* coordinates, i64 count) {
  bounds_ = options_.has_bounds ? options_.bounds : Bounds{};
  if (!options_.has_bounds && count > 0) {
    MINUET_TRY(engine_->find_bounds(coordinates, count, bounds_words_));
    MINUET_TRY(engine_->read_back(host_bounds_, bounds_words_, kBoundsWords * static_cast<i64>(sizeof(i32))));
    MINUET_TRY(engine_->wait());
    bounds_ = read_bounds(host_bounds_);
  }
  i64 guard[kMaxDim], period[kMaxDim];
  layout_needs(plan_->program, guard, period);
  MINUET_ASSIGN(layout_, make_cloud_layout(plan_->program.ndim, bounds_, guard, period));
  return llvm::Error::success();
}

llvm::Error NetworkExecution::enqueue_maps(const i32* coordinates, i64 count) {
  const NetworkProgram& program = plan_->program;
  // Room is there for capacity_; the work is the cloud's, however large the clouds before it were.
  MapLimits limits = map_limits(key_type_of(layout_));
  limits.capacity = std::max<i64>(count, 1);
  for (Level& level : levels_) level.coords.capacity = limits.capacity;
  MINUET_TRY(engine_->begin_maps(limits, map_workspace_));
  MINUET_TRY(engine_->fill_words(report_, 0, report_words_));

  BuildCoordsRequest build;
  build.coordinates = coordinates;
  build.count = count;
  build.layout = layout_;
  build.bounds = bounds_;
  build.coords = levels_[0].coords;
  build.source_row = source_row_;
  build.row_of = row_of_;
  build.status = reinterpret_cast<u32*>(report_);
  MINUET_TRY(engine_->build_coords(build));
  for (std::size_t i = 1; i < levels_.size(); ++i) {
    const LevelSpec& spec = program.levels[i];
    MINUET_TRY(
        engine_->downsample({levels_[spec.parent].coords, layout_, spec.tensor_stride, levels_[i].coords}));
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program.maps[i];
    if (spec.is_identity()) continue;
    MINUET_TRY(engine_->search(
        {levels_[spec.fine].coords, levels_[spec.coarse].coords, layout_, 0, &maps_[i].view}));
  }
  return llvm::Error::success();
}

/// The one read-back of counts.
llvm::Error NetworkExecution::read_report(i64 count) {
  MINUET_TRY(engine_->read_back(host_report_, report_, report_words_ * static_cast<i64>(sizeof(i32))));
  MINUET_TRY(engine_->wait());
  MINUET_TRY(check_report(count));
  for (std::size_t i = 0; i < levels_.size(); ++i) levels_[i].rows = host_report_[kReportHead + i];
  return llvm::Error::success();
}

llvm::Error NetworkExecution::check_report(i64 count) const {
  MINUET_TRY(check_coordinate_status(static_cast<u32>(host_report_[0])));
  return check_duplicates(host_report_[kReportHead], count, options_.keep_first_duplicate);
}

llvm::Error NetworkExecution::group_maps() {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = plan_->program.maps[i];
    Map& map = maps_[i];
    map.view.sources = levels_[spec.fine].rows;
    map.view.queries = levels_[spec.coarse].rows;
    i32* counts = host_report_ + map.report_offset;
    if (spec.is_identity()) counts[0] = static_cast<i32>(map.view.queries);
    MINUET_TRY(group_gemms(counts, map.view.geometry.volume, map.direct_offset, plan_->grouping, map.groups));
  }
  return llvm::Error::success();
}

i64 NetworkExecution::place_tensors(char* base) {
  const NetworkProgram& program = plan_->program;
  const i64 element = dtype_bytes(program.dtype);
  Placement place(base);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i] = place.take<char>(levels_[program.slots[i].level].rows * program.slots[i].ld * element);
  }
  i64 gather_bytes = 0, gemm_bytes = 0;
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const GroupPlan& groups = maps_[program.layers[i].map].groups;
    const ConvolutionChoice& choice = plan_->layers[i].choice;
    gather_bytes = std::max(gather_bytes, engine_->gather_buffer_bytes(choice, groups));
    gemm_bytes = std::max(gemm_bytes, engine_->gemm_buffer_bytes(choice, groups));
  }
  gather_buffer_ = place.take<char>(gather_bytes);
  gemm_buffer_ = place.take<char>(gemm_bytes);
  return place.bytes();
}

llvm::Error NetworkExecution::enqueue_tables() {
  for (const Map& map : maps_) {
    copy_tables(map.groups, host_tables_ + map.table_offset);
  }
  MINUET_TRY(engine_->send(tables_, host_tables_, table_words_ * static_cast<i64>(sizeof(i32))));
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    if (plan_->program.maps[i].is_identity()) continue;
    MINUET_TRY(engine_->make_tables(maps_[i].view, maps_[i].direct_offset));
  }
  return llvm::Error::success();
}

llvm::Error NetworkExecution::prepare_layers() {
  for (std::size_t i = 0; i < plan_->layers.size(); ++i) {
    MINUET_TRY(engine_->prepare_convolution(request_of(static_cast<i32>(i), nullptr)));
  }
  return llvm::Error::success();
}

/// The network's output on a derived level is the caller's memory itself, and so are the parts that a
/// concatenation puts there.
void* NetworkExecution::tensor_address(i32 tensor, void* output) const {
  const NetworkProgram& program = plan_->program;
  const TensorSpec& spec = program.tensors[tensor];
  const bool is_output = output && spec.level != 0 && spec.storage == program.tensors[program.output].storage;
  char* const base = is_output ? static_cast<char*>(output) : slots_[program.storages[spec.storage].slot];
  return base + static_cast<i64>(spec.column) * dtype_bytes(program.dtype);
}

ConvolveRequest NetworkExecution::request_of(i32 number, void* output) const {
  const NetworkProgram& program = plan_->program;
  const ProgramLayer& layer = program.layers[number];
  const Map& map = maps_[layer.map];
  ConvolveRequest request;
  request.convolution = convolutions_[number];
  request.map = &map.view;
  request.groups = &map.groups;
  request.transposed = layer.problem.kind == ConvolutionKind::Transposed;
  request.input = tensor_address(layer.input, output);
  request.input_rows = levels_[program.tensors[layer.input].level].rows;
  request.output = tensor_address(layer.output, output);
  request.output_rows = levels_[program.tensors[layer.output].level].rows;
  request.residual = layer.residual >= 0 ? tensor_address(layer.residual, output) : nullptr;
  request.gather_buffer = gather_buffer_;
  request.gemm_buffer = gemm_buffer_;
  return request;
}

llvm::Error NetworkExecution::check_prepared() const {
  if (prepared_) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "no cloud is prepared: call prepare with its coordinates first");
}

llvm::Error NetworkExecution::load_input(const void* features) {
  const NetworkProgram& program = plan_->program;
  const TensorSpec& input = program.tensors[program.input];
  return engine_->permute_rows(permute_input_, features, input.channels, source_row_, levels_[0].rows,
                               tensor_address(program.input, nullptr), program.storages[input.storage].ld);
}

llvm::Error NetworkExecution::run(const void* features, void* output, void* stream) {
  MINUET_TRY(check_prepared());
  MINUET_TRY(check_alignment(features, kVectorAlignment, "the features"));
  MINUET_TRY(check_alignment(output, kVectorAlignment, "the output"));
  MINUET_TRY(engine_->begin(stream));
  MINUET_TRY(load_input(features));
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    MINUET_TRY(engine_->convolve(request_of(static_cast<i32>(i), output)));
  }
  const NetworkProgram& program = plan_->program;
  const TensorSpec& result = program.tensors[program.output];
  if (result.level != 0) return engine_->end();
  MINUET_TRY(engine_->permute_rows(permute_output_, tensor_address(program.output, nullptr),
                                   program.storages[result.storage].ld, row_of_, count_, output,
                                   result.channels));
  return engine_->end();
}

llvm::Error NetworkExecution::output_coordinates(i32* coordinates, void* stream) {
  MINUET_TRY(check_prepared());
  MINUET_TRY(engine_->begin(stream));
  const i32 level = plan_->program.tensors[plan_->program.output].level;
  if (level != 0) return engine_->unpack(levels_[level].coords, layout_, coordinates);
  const i32 fields = 1 + plan_->program.ndim;
  MINUET_TRY(engine_->unpack(levels_[0].coords, layout_, coordinates_));
  return engine_->permute_rows(permute_coordinates_, coordinates_, fields, row_of_, count_, coordinates,
                               fields);
}

i64 NetworkExecution::output_rows() const {
  const i32 level = plan_->program.tensors[plan_->program.output].level;
  return level == 0 ? count_ : levels_[level].rows;
}

llvm::Expected<double> NetworkExecution::largest_activation(const void* features, void* stream) {
  MINUET_TRY(check_prepared());
  MINUET_TRY(engine_->begin(stream));
  MINUET_TRY(load_input(features));
  const NetworkProgram& program = plan_->program;
  const i64 element = dtype_bytes(program.dtype);
  double largest = 0;
  std::vector<char> bytes;
  std::vector<float> values;
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    MINUET_TRY(engine_->convolve(request_of(static_cast<i32>(i), nullptr)));
    MINUET_TRY(engine_->wait());
    const TensorSpec& tensor = program.tensors[program.layers[i].output];
    const StorageSpec& storage = program.storages[tensor.storage];
    const i64 rows = levels_[tensor.level].rows;
    bytes.resize(static_cast<std::size_t>(rows * storage.ld * element));
    MINUET_TRY(loaded_->device->download(bytes.data(), slots_[storage.slot], static_cast<i64>(bytes.size())));
    values.resize(static_cast<std::size_t>(rows * storage.ld));
    load_values(program.dtype, bytes.data(), values.size(), values.data());
    for (i64 row = 0; row < rows; ++row) {
      const float* value = values.data() + row * storage.ld + tensor.column;
      for (i32 c = 0; c < tensor.channels; ++c) {
        const double magnitude = std::abs(static_cast<double>(value[c]));
        if (std::isnan(magnitude)) return magnitude;
        largest = std::max(largest, magnitude);
      }
    }
  }
  return largest;
}

}  // namespace minuet
