// Wraps pyramid.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_PYRAMID_HPP_
#define MINUET_PYRAMID_HPP_

#include "minuet/minuet.hpp"
#include "minuet/pyramid.h"

namespace minuet {

/// Owns a minuet_pyramid: the description of coordinate sets and kernel maps whose sizes only the device
/// knows.
class Pyramid {
 public:
  Pyramid(const Context& context, const minuet_pyramid_options& options) {
    minuet_pyramid* pyramid = nullptr;
    check(minuet_pyramid_create(context.get(), &options, &pyramid));
    owner_.reset(pyramid);
  }
  /// Creates a pyramid with the levels and maps of a network. `keep_coordinates` is as in the options. A
  /// network that needs a batch size needs the other constructor.
  Pyramid(const Context& context, const Plan& network, const std::vector<std::int64_t>& level_capacity,
          std::uint32_t keep_coordinates = 0)
      : Pyramid(context, options_of(network, level_capacity, keep_coordinates)) {}
  /// Takes ownership of a pyramid that was made in C, or by Training::create_pyramid().
  static Pyramid take(minuet_pyramid* pyramid) {
    Pyramid taken;
    taken.owner_.reset(pyramid);
    return taken;
  }
  minuet_pyramid* get() const noexcept { return owner_.get(); }

  /// Sizes in bytes of the memory that the caller gives to minuet_pyramid_build.
  struct Bytes {
    std::int64_t buffer = 0, workspace = 0;
  };
  /// Returns the sizes that minuet_pyramid_bytes gives for `arch`.
  Bytes bytes(const std::string& arch) const {
    Bytes bytes;
    check(minuet_pyramid_bytes(get(), arch.c_str(), &bytes.buffer, &bytes.workspace));
    return bytes;
  }
  /// Loads the kernels that build pyramids, and compiles them if needed (minuet_pyramid_load).
  void load(const Device& device) const { check(minuet_pyramid_load(get(), device.get())); }
  /// Enqueues a build of the pyramid (minuet_pyramid_build).
  void build(const Device& device, const minuet_pyramid_arguments& arguments, void* stream = nullptr) const {
    check(minuet_pyramid_build(get(), device.get(), &arguments, stream));
  }
  /// Enqueues a copy of a level's coordinates to device memory, int32 [capacity, 1 + ndim]. `bytes` is the
  /// size of the buffer, here and in the next two functions.
  void coordinates(const Device& device, const void* buffer, std::int64_t bytes, std::int32_t level,
                   std::int32_t* coordinates, void* stream = nullptr) const {
    check(minuet_pyramid_coordinates(get(), device.get(), buffer, bytes, level, coordinates, stream));
  }
  /// Enqueues copies of the two orders of level 0 to device memory, int32 [capacity] each. Either pointer may
  /// be null.
  void rows(const Device& device, const void* buffer, std::int64_t bytes, std::int32_t* source_row,
            std::int32_t* set_row, void* stream = nullptr) const {
    check(minuet_pyramid_rows(get(), device.get(), buffer, bytes, source_row, set_row, stream));
  }
  /// Enqueues the list of a map's pairs to device memory, int32 [capacity, 3], and their number, int32 [1].
  void export_pairs(const Device& device, const void* buffer, std::int64_t bytes, std::int32_t map,
                    std::int32_t* pairs, std::int64_t capacity, std::int32_t* count,
                    void* stream = nullptr) const {
    check(
        minuet_pyramid_export_pairs(get(), device.get(), buffer, bytes, map, pairs, capacity, count, stream));
  }

 private:
  Pyramid() = default;
  static minuet_pyramid_options options_of(const Plan& network,
                                           const std::vector<std::int64_t>& level_capacity,
                                           std::uint32_t keep_coordinates) {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = network.get();
    options.level_capacity = level_capacity.data();
    options.level_count = static_cast<std::int32_t>(level_capacity.size());
    options.keep_coordinates = keep_coordinates;
    return options;
  }
  detail::Owner<minuet_pyramid, minuet_pyramid_destroy> owner_;
};

/// Returns the bytes of workspace that a run needs (minuet_plan_run_bytes).
inline std::int64_t run_bytes(const Plan& plan, const std::string& arch,
                              const minuet_run_arguments& arguments) {
  std::int64_t bytes = 0;
  check(minuet_plan_run_bytes(plan.get(), arch.c_str(), &arguments, &bytes));
  return bytes;
}
/// Makes in advance what the first run would make (minuet_plan_run_load).
inline void run_load(const Plan& plan, const Device& device, const minuet_run_arguments& arguments) {
  check(minuet_plan_run_load(plan.get(), device.get(), &arguments));
}
/// Returns the bytes of minuet_run_arguments.prepared (minuet_plan_prepared_bytes).
inline std::int64_t prepared_bytes(const Plan& plan, const std::string& arch,
                                   const minuet_run_arguments& arguments) {
  std::int64_t bytes = 0;
  check(minuet_plan_prepared_bytes(plan.get(), arch.c_str(), &arguments, &bytes));
  return bytes;
}
/// Enqueues the work that writes the parameters for runs to `prepared` (minuet_plan_prepare_parameters).
inline void prepare_parameters(const Plan& plan, const Device& device, const minuet_run_arguments& arguments,
                               const std::vector<minuet_array>& values, minuet_weights_order order,
                               void* prepared, std::int64_t bytes, void* stream = nullptr) {
  check(minuet_plan_prepare_parameters(plan.get(), device.get(), &arguments, values.data(),
                                       static_cast<std::int32_t>(values.size()), order, prepared, bytes,
                                       stream));
}
/// Enqueues a run of the plan on a pyramid (minuet_plan_run).
inline void run(const Plan& plan, const Device& device, const minuet_run_arguments& arguments,
                void* stream = nullptr) {
  check(minuet_plan_run(plan.get(), device.get(), &arguments, stream));
}

}  // namespace minuet

#endif  // MINUET_PYRAMID_HPP_
