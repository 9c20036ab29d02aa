#include "tests/runtime/execution/queue_calls.h"

#include "include/minuet/gradient.h"
#include "include/minuet/index.h"
#include "include/minuet/points.h"

namespace minuet::abi::queue_calls {
namespace {

/// An object that a call may make; it has to stay null where the call is refused.
template <class T>
minuet_status made(T* object, void (*destroy)(T*), minuet_status status) {
  EXPECT_EQ(object != nullptr, status == MINUET_OK);
  destroy(object);
  return status;
}

/// A call that only fills in a struct; `which` is the number of a level or layer.
template <class Info, class Query, class... Which>
minuet_status ask(const Query& query, const Execution& execution, Which... which) {
  Info info{};
  info.struct_size = sizeof(info);
  return query(execution.get(), which..., &info);
}

}  // namespace

const std::vector<Call>& calls() {
  static const std::vector<Call> table = {
      {"minuet_execution_run", Of::Network, true, [](Objects& o) { return o.run(); }},
      {"minuet_execution_run_arrays", Of::Network, true, [](Objects& o) { return o.run_arrays(); }},
      {"minuet_execution_output_shape", Of::Network, false,
       [](Objects& o) {
         int64_t rows = -1;
         int32_t channels = -1;
         const minuet_status status = minuet_execution_output_shape(o.network.get(), &rows, &channels);
         EXPECT_EQ(rows, status == MINUET_OK ? kRows : -1);
         EXPECT_EQ(channels, status == MINUET_OK ? kOut : -1);
         return status;
       }},
      {"minuet_execution_output_shape_of", Of::Network, false,
       [](Objects& o) {
         int64_t rows = -1;
         int32_t channels = -1;
         const minuet_status status = minuet_execution_output_shape_of(o.network.get(), 0, &rows, &channels);
         EXPECT_EQ(rows, status == MINUET_OK ? kRows : -1);
         EXPECT_EQ(channels, status == MINUET_OK ? kOut : -1);
         return status;
       }},
      {"minuet_execution_output_coordinates_of", Of::Network, true,
       [](Objects& o) {
         return minuet_execution_output_coordinates_of(o.network.get(), 0,
                                                       static_cast<int32_t*>(o.plans.room.data()), o.stream);
       }},
      {"minuet_execution_output_coordinates", Of::Network, true,
       [](Objects& o) {
         return minuet_execution_output_coordinates(o.network.get(),
                                                    static_cast<int32_t*>(o.plans.room.data()), o.stream);
       }},
      {"minuet_execution_suggest_capacities", Of::Network, false,
       [](Objects& o) {
         int64_t capacity = -1;
         const minuet_status status = minuet_execution_suggest_capacities(o.network.get(), 1, &capacity, 1);
         EXPECT_EQ(capacity, status == MINUET_OK ? 256 : -1);
         return status;
       }},
      {"minuet_execution_suggest_slots", Of::Network, true,
       [](Objects& o) {
         int64_t slots = -1;
         const minuet_status status = minuet_execution_suggest_slots(o.network.get(), 1, &slots, 1, o.stream);
         EXPECT_EQ(slots, status == MINUET_OK ? 4096 : -1);
         return status;
       }},
      {"minuet_execution_find_overflow", Of::Network, true,
       [](Objects& o) {
         int32_t layer = -2;
         const minuet_status status = minuet_execution_find_overflow(o.network.get(), o.stream, &layer);
         EXPECT_EQ(layer, status == MINUET_OK ? -1 : -2);
         return status;
       }},
      {"minuet_execution_query_stages", Of::Network, false,
       [](Objects& o) { return ask<minuet_stage_times>(minuet_execution_query_stages, o.network); }},
      {"minuet_execution_query_level", Of::Network, false,
       [](Objects& o) { return ask<minuet_level_info>(minuet_execution_query_level, o.network, 0); }},
      {"minuet_execution_query_layer", Of::Convolution, false,
       [](Objects& o) { return ask<minuet_layer_info>(minuet_execution_query_layer, o.convolution, 0); }},
      {"minuet_execution_query_counters", Of::Convolution, false,
       [](Objects& o) {
         return ask<minuet_execution_counters>(minuet_execution_query_counters, o.convolution);
       }},
      {"minuet_execution_reset_counters", Of::Within, false,
       [](Objects& o) { return minuet_execution_reset_counters(o.within.get()); }},
      {"minuet_execution_set_profiling", Of::Network, false,
       [](Objects& o) { return minuet_execution_set_profiling(o.network.get(), 1); }},
      {"minuet_execution_release_captures", Of::Network, false,
       [](Objects& o) { return minuet_execution_release_captures(o.network.get()); }},
      {"minuet_execution_query_cloud", Of::Within, false,
       [](Objects& o) {
         const uint32_t* status = nullptr;
         const int32_t* counts = nullptr;
         const minuet_status answer = minuet_execution_query_cloud(o.within.get(), &status, &counts);
         EXPECT_EQ(status != nullptr && counts != nullptr, answer == MINUET_OK);
         return answer;
       }},
      {"minuet_execution_query", Of::Within, false,
       [](Objects& o) { return ask<minuet_execution_info>(minuet_execution_query, o.within); }},
      {"minuet_execution_copy_cloud", Of::Within, true,
       [](Objects& o) {
         return minuet_execution_copy_cloud(o.within.get(), static_cast<uint32_t*>(o.plans.room.data()),
                                            nullptr, 0, o.stream);
       }},
      {"minuet_execution_read_cloud", Of::Within, true,
       [](Objects& o) {
         uint32_t status = ~0u;
         std::vector<int32_t> counts(2, -1);
         const minuet_status answer =
             minuet_execution_read_cloud(o.within.get(), &status, counts.data(), 2, o.stream);
         EXPECT_EQ(status, answer == MINUET_OK ? 0 : ~0u);
         EXPECT_EQ(counts, std::vector<int32_t>(2, answer == MINUET_OK ? kRows : -1));
         return answer;
       }},
      {"minuet_coordinates_create", Of::Set, true,
       [](Objects& o) {
         minuet_coordinates* set = nullptr;
         const minuet_status status = o.make_set(&set);
         return made(set, minuet_coordinates_destroy, status);
       }},
      {"minuet_coordinates_downsample", Of::Set, true,
       [](Objects& o) {
         const int32_t stride[] = {2, 2, 2, 1};
         minuet_coordinates* coarse = nullptr;
         const minuet_status status = minuet_coordinates_downsample(o.set.get(), stride, o.stream, &coarse);
         return made(coarse, minuet_coordinates_destroy, status);
       }},
      {"minuet_coordinates_reach", Of::Set, true,
       [](Objects& o) {
         minuet_reach_options options = MINUET_REACH_OPTIONS_INIT;
         options.kernel_size[0] = 3;
         minuet_coordinates* reached = nullptr;
         const minuet_status status = minuet_coordinates_reach(o.set.get(), &options, o.stream, &reached);
         return made(reached, minuet_coordinates_destroy, status);
       }},
      {"minuet_coordinates_generate", Of::Set, true,
       [](Objects& o) {
         minuet_generate_options options = MINUET_GENERATE_OPTIONS_INIT;
         options.kernel_size[0] = 3;
         minuet_coordinates* generated = nullptr;
         const minuet_status status =
             minuet_coordinates_generate(o.set.get(), &options, o.stream, &generated);
         return made(generated, minuet_coordinates_destroy, status);
       }},
      {"minuet_coordinates_export", Of::Set, true,
       [](Objects& o) {
         return minuet_coordinates_export(o.set.get(), static_cast<int32_t*>(o.plans.room.data()), o.stream);
       }},
      {"minuet_kernel_map_create", Of::Set, true,
       [](Objects& o) {
         minuet_kernel_map* map = nullptr;
         const minuet_status status = o.make_map(&map);
         return made(map, minuet_kernel_map_destroy, status);
       }},
      {"minuet_kernel_map_query_pairs", Of::Set, false,
       [](Objects& o) {
         int64_t pairs = -1;
         const minuet_status status = minuet_kernel_map_query_pairs(o.map.get(), &pairs);
         EXPECT_EQ(pairs >= kRows, status == MINUET_OK);
         return status;
       }},
      {"minuet_kernel_map_export", Of::Set, true,
       [](Objects& o) { return minuet_kernel_map_export(o.map.get(), o.plans.host.data(), o.stream); }},
      {"minuet_kernel_map_list_pairs", Of::Set, true,
       [](Objects& o) {
         return minuet_kernel_map_list_pairs(o.map.get(), nullptr, 0,
                                             static_cast<int32_t*>(o.plans.room.data()), o.stream);
       }},
      {"minuet_execution_read_points", Of::Points, true,
       [](Objects& o) {
         std::vector<int32_t> counts(MINUET_VOXELIZE_COUNTS, -1);
         const minuet_status status =
             minuet_execution_read_points(o.points.get(), counts.data(), MINUET_VOXELIZE_COUNTS, o.stream);
         EXPECT_EQ(counts[MINUET_VOXELIZE_KEPT], status == MINUET_OK ? kRows : -1);
         return status;
       }},
      {"minuet_execution_create", Of::Set, false,
       [](Objects& o) {
         minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
         options.queue = o.queue;
         minuet_execution* execution = nullptr;
         const minuet_status status =
             minuet_execution_create(o.plans.network.get(), o.machine.device(), &options, &execution);
         return made(execution, minuet_execution_destroy, status);
       }},
      {"minuet_execution_prepare", Of::Network, true,
       [](Objects& o) {
         return minuet_execution_prepare(o.network.get(), o.plans.coordinates.integers(), kRows, o.stream);
       }},
      {"minuet_execution_set_workspace", Of::Within, true,
       [](Objects& o) {
         return minuet_execution_set_workspace(o.within.get(), o.plans.workspace.data(),
                                               o.plans.workspace.bytes(), o.stream);
       }},
      {"minuet_execution_prepare_on_device", Of::Within, true,
       [](Objects& o) {
         return minuet_execution_prepare_on_device(o.within.get(), o.plans.coordinates.integers(),
                                                   o.plans.count.integers(), o.stream);
       }},
      {"minuet_execution_prepare_maps", Of::Convolution, true,
       [](Objects& o) { return prepare_map(o.convolution.get(), o.map.get(), o.stream); }},
      {"minuet_executions_prepare_maps", Of::Convolution, true,
       [](Objects& o) {
         minuet_execution* const executions[] = {o.convolution.get()};
         minuet_kernel_map* const maps[] = {o.map.get()};
         return minuet_executions_prepare_maps(executions, maps, 1, o.stream);
       },
       /*needs_queue=*/true},
  };
  return table;
}

}  // namespace minuet::abi::queue_calls
