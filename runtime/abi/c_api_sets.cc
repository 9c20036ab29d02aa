// Implements the functions of the C ABI for queues, coordinate sets and kernel maps.
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

/// Reads the options and replaces an ndim of 0 by the default, which is 3.
llvm::Expected<minuet_coordinates_options> read_given(const minuet_coordinates_options* options) {
  MINUET_ASSIGN(minuet_coordinates_options given,
                read_options(options, minuet_coordinates_options(MINUET_COORDINATES_OPTIONS_INIT)));
  MINUET_ASSIGN(given.ndim, read_ndim(given.ndim));
  return given;
}

llvm::Expected<CoordinateSetOptions> read_set_options(const minuet_coordinates_options& given) {
  MINUET_TRY(
      check_flags({{given.keep_first_duplicate, "keep_first_duplicate"}, {given.has_bounds, "has_bounds"}}));
  CoordinateSetOptions options;
  MINUET_ASSIGN(options.tensor_stride, read_axes(given.tensor_stride, given.ndim, "tensor_stride"));
  options.keep_first_duplicate = given.keep_first_duplicate != 0;
  for (i32 a = 0; a < kMaxDim; ++a) {
    if (options.tensor_stride[a] > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "tensor_stride of axis {0} is {1}; it must be at most 2^24", a,
                        options.tensor_stride[a]);
    }
  }
  options.has_bounds = given.has_bounds != 0;
  if (options.has_bounds) {
    MINUET_ASSIGN(options.bounds, declared_bounds(given.ndim, given.least, given.greatest));
  }
  return options;
}

/// Returns the number that `rows` reads from the set. If the host does not know the set's row counts yet,
/// waits for them first. Returns 0 if `set` is null, and -1 after a failure.
int64_t counted(const char* function, const minuet_coordinates* set,
                llvm::function_ref<i64(const CoordinateSet&)> rows) {
  if (!set) return 0;
  const minuet_status status = guarded(function, [&] { return set->set->count_rows(); });
  return status == MINUET_OK ? rows(*set->set) : -1;
}

}  // namespace

llvm::Expected<std::shared_ptr<Queue>> read_queue(const minuet_queue* queue, const Device& device) {
  if (!queue) return nullptr;
  if (queue->queue->device().get() != &device) {
    return make_error(StatusCode::InvalidArgument,
                      "the queue belongs to the device {0}: give a queue of the device {1}",
                      queue->queue->device()->info().name, device.info().name);
  }
  return queue->queue;
}

llvm::Expected<QueueLock> lock_queue(const std::shared_ptr<Queue>& queue) {
  return queue ? queue->lock() : QueueLock();
}

}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_queue_create(minuet_device* device, void* stream, minuet_queue** queue) {
  return guarded("minuet_queue_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(queue, "queue"));
    MINUET_ASSIGN(std::shared_ptr<Queue> made, Queue::create(device->open->device(), stream));
    *queue = new minuet_queue{device->open, std::move(made)};
    return llvm::Error::success();
  });
}

void minuet_queue_destroy(minuet_queue* queue) { delete queue; }

minuet_status minuet_coordinates_create(minuet_device* device, const minuet_coordinates_options* options,
                                        const int32_t* coordinates, int64_t count, void* stream,
                                        minuet_coordinates** set) {
  return guarded("minuet_coordinates_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(set, "set"));
    if (count > 0) MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    MINUET_ASSIGN(const minuet_coordinates_options given, read_given(options));
    MINUET_ASSIGN(CoordinateSetOptions set_options, read_set_options(given));
    MINUET_ASSIGN(set_options.queue, read_queue(given.queue, *device->open->device()));
    // map_engines() may compile and call the log callback, so the queue is not locked yet.
    MINUET_ASSIGN(std::shared_ptr<MapEngines> engines, device->open->map_engines(given.ndim));
    MINUET_ASSIGN(const auto locked, lock_queue(set_options.queue));
    MINUET_ASSIGN(std::shared_ptr<CoordinateSet> made,
                  CoordinateSet::create(std::move(engines), set_options, coordinates, count, stream));
    *set = new minuet_coordinates{std::move(made)};
    return llvm::Error::success();
  });
}

minuet_status minuet_coordinates_downsample(minuet_coordinates* fine, const int32_t stride[MINUET_MAX_DIM],
                                            void* stream, minuet_coordinates** coarse) {
  return guarded("minuet_coordinates_downsample", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(fine, "fine"));
    MINUET_TRY(check_pointer(stride, "stride"));
    MINUET_TRY(check_pointer(coarse, "coarse"));
    MINUET_ASSIGN(const AxisArray axes, read_axes(stride, fine->set->engines()->ndim(), "stride"));
    MINUET_ASSIGN(const auto locked, lock_queue(fine->set->queue()));
    MINUET_ASSIGN(std::shared_ptr<CoordinateSet> made, fine->set->downsample(axes, stream));
    *coarse = new minuet_coordinates{std::move(made)};
    return llvm::Error::success();
  });
}

minuet_status minuet_coordinates_reach(minuet_coordinates* parent, const minuet_reach_options* options,
                                       void* stream, minuet_coordinates** set) {
  return guarded("minuet_coordinates_reach", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(parent, "parent"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(set, "set"));
    MINUET_ASSIGN(const minuet_reach_options given,
                  read_options(options, minuet_reach_options(MINUET_REACH_OPTIONS_INIT)));
    const i32 ndim = parent->set->engines()->ndim();
    ReachSpec reach;
    MINUET_ASSIGN(reach.kernel_size, read_axes(given.kernel_size, ndim, "kernel_size"));
    MINUET_ASSIGN(reach.dilation, read_axes(given.dilation, ndim, "dilation"));
    MINUET_ASSIGN(reach.padding, read_cells(given.padding, ndim, "padding"));
    MINUET_ASSIGN(const AxisArray stride, read_axes(given.stride, ndim, "stride"));
    MINUET_ASSIGN(const AxisArray shape, read_set_shape(given.shape, ndim));
    MINUET_ASSIGN(const auto locked, lock_queue(parent->set->queue()));
    MINUET_ASSIGN(std::shared_ptr<CoordinateSet> made, parent->set->reach(reach, stride, shape, stream));
    *set = new minuet_coordinates{std::move(made)};
    return llvm::Error::success();
  });
}

minuet_status minuet_coordinates_generate(minuet_coordinates* parent, const minuet_generate_options* options,
                                          void* stream, minuet_coordinates** set) {
  return guarded("minuet_coordinates_generate", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(parent, "parent"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(set, "set"));
    MINUET_ASSIGN(const minuet_generate_options given,
                  read_options(options, minuet_generate_options(MINUET_GENERATE_OPTIONS_INIT)));
    const i32 ndim = parent->set->engines()->ndim();
    ReachSpec reach;
    reach.is_generative = true;
    MINUET_ASSIGN(reach.kernel_size, read_axes(given.kernel_size, ndim, "kernel_size"));
    MINUET_ASSIGN(reach.dilation, read_axes(given.dilation, ndim, "dilation"));
    MINUET_ASSIGN(const std::optional<AxisArray> padding,
                  read_padding(given.dense_offsets, given.padding, ndim));
    reach.padding = padding.value_or(centred_padding(reach.kernel_size, reach.dilation));
    MINUET_ASSIGN(const AxisArray stride, read_axes(given.stride, ndim, "stride"));
    MINUET_ASSIGN(const AxisArray shape, read_set_shape(given.shape, ndim));
    MINUET_ASSIGN(const auto locked, lock_queue(parent->set->queue()));
    MINUET_ASSIGN(std::shared_ptr<CoordinateSet> made, parent->set->reach(reach, stride, shape, stream));
    *set = new minuet_coordinates{std::move(made)};
    return llvm::Error::success();
  });
}

void minuet_coordinates_destroy(minuet_coordinates* set) { delete set; }

int64_t minuet_coordinates_count(const minuet_coordinates* set) {
  return counted("minuet_coordinates_count", set, [](const CoordinateSet& of) { return of.rows(); });
}

int64_t minuet_coordinates_rows(const minuet_coordinates* set) {
  return counted("minuet_coordinates_rows", set, [](const CoordinateSet& of) { return of.caller_rows(); });
}

minuet_status minuet_coordinates_export(minuet_coordinates* set, int32_t* coordinates, void* stream) {
  return guarded("minuet_coordinates_export", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(set, "set"));
    MINUET_ASSIGN(const auto locked, lock_queue(set->set->queue()));
    MINUET_TRY(set->set->check_stream(stream));
    MINUET_TRY(set->set->make_deferred());
    MINUET_TRY(set->set->count_rows());
    if (set->set->rows() == 0) return llvm::Error::success();
    MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    return set->set->export_coordinates(coordinates, stream);
  });
}

minuet_status minuet_kernel_map_create(minuet_coordinates* input, minuet_coordinates* output,
                                       const minuet_kernel_map_options* options, void* stream,
                                       minuet_kernel_map** map) {
  return guarded("minuet_kernel_map_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(input, "input"));
    MINUET_TRY(check_pointer(output, "output"));
    MINUET_TRY(check_pointer(map, "map"));
    MINUET_ASSIGN(const minuet_kernel_map_options given,
                  read_options(options, minuet_kernel_map_options(MINUET_KERNEL_MAP_OPTIONS_INIT)));
    MINUET_TRY(check_flags({{given.transposed, "transposed"}}));
    const i32 ndim = input->set->engines()->ndim();
    WindowProblem kernel;
    MINUET_TRY(read_kernel(given, ndim, kernel));
    MINUET_ASSIGN(const auto locked, lock_queue(input->set->queue()));
    MINUET_ASSIGN(std::shared_ptr<KernelMap> made,
                  KernelMap::create(input->set, output->set, kernel, given.transposed != 0, stream));
    *map = new minuet_kernel_map{std::move(made)};
    return llvm::Error::success();
  });
}

minuet_status minuet_kernel_map_transpose(minuet_kernel_map* forward, minuet_kernel_map** map) {
  return guarded("minuet_kernel_map_transpose", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(forward, "forward"));
    MINUET_TRY(check_pointer(map, "map"));
    *map = new minuet_kernel_map{forward->map->transpose()};
    return llvm::Error::success();
  });
}

void minuet_kernel_map_destroy(minuet_kernel_map* map) { delete map; }

int32_t minuet_kernel_map_volume(const minuet_kernel_map* map) {
  return map ? map->map->view().geometry.volume : 0;
}
minuet_status minuet_kernel_map_query_pairs(minuet_kernel_map* map, int64_t* pairs) {
  return guarded("minuet_kernel_map_query_pairs", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(map, "map"));
    MINUET_TRY(check_pointer(pairs, "pairs"));
    const KernelMap& own = *map->map;
    // If the counts are already known, pairs() does not use the queue, so the queue need not be locked.
    MINUET_ASSIGN(const auto locked, lock_queue(own.has_counts() ? nullptr : own.queue()));
    MINUET_ASSIGN(*pairs, own.pairs());
    return llvm::Error::success();
  });
}

minuet_status minuet_kernel_map_export(minuet_kernel_map* map, int32_t* pairs, void* stream) {
  return guarded("minuet_kernel_map_export", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(map, "map"));
    MINUET_ASSIGN(const auto locked, lock_queue(map->map->queue()));
    return map->map->export_pairs(pairs, stream);
  });
}
}
