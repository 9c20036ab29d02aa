// What tests of networks in an index of voxels (kernels_templates/shared/voxel_index.h) share: networks whose
// outputs are exact whole numbers, clouds in memory as large as the capacities allow, and what comes out.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/maps/index_clouds.h"
#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {

using oracle::Axes;

/// How networks of pairs go from each level to the next one: by windows that no voxel is outside of. The
/// strides are 2, and 1, 3 and 5 per axis.
inline constexpr struct {
  Axes size, stride;
} kSteps[] = {{{2, 2, 2, 2}, {2, 2, 2, 2}}, {{5, 1, 9, 1}, {3, 1, 5, 1}}, {{9, 5, 1, 5}, {5, 3, 1, 3}}};

/// The map of which a network shows the pairs: from a level to itself, or to the next one, there or back.
struct ShownMap {
  int from, to;
};
inline constexpr ShownMap kShownMaps[] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {0, 1},
                                          {1, 2}, {2, 3}, {3, 2}, {2, 1}, {1, 0}};

/// Networks of sums of whole numbers, which are exact in any order.
class IndexedNetworks : public SetsOnDevice {
 protected:
  static constexpr int64_t kChannels = 8;

  /// Maxima of each level, then one convolution by the map. The weights of an offset put the channels into an
  /// order of its own, so that an output tells which inputs it has, and at which offsets.
  Plan network(int ndim, const ShownMap& map) {
    const Axes one{1, 1, 1, 1}, three{3, 3, 3, 3};
    std::string layers;
    const auto add_layer = [&](const char* op, const std::string& name, const Axes& size, const Axes& stride,
                               const std::string& more) {
      layers += std::string(layers.empty() ? "" : ", ") + R"({"op": ")" + op + R"(", "name": ")" + name +
                R"(", "kernel_size": )" + axes_text(ndim, size) + R"(, "stride": )" +
                axes_text(ndim, stride) + more + "}";
    };
    add_layer("max_pool", "0", one, one, R"(, "save": "0")");
    for (int level = 1; level <= map.from; ++level) {
      const std::string name = std::to_string(level);
      add_layer("max_pool", name, kSteps[level - 1].size, kSteps[level - 1].stride,
                R"(, "save": ")" + name + "\"");
    }
    const int finer = std::min(map.from, map.to);
    const Axes& size = map.from == map.to ? three : kSteps[finer].size;
    add_layer(map.from > map.to ? "up" : "block", "shown", size,
              map.from == map.to ? one : kSteps[finer].stride,
              R"(, "width": 0, "norm": "none", "activation": "none")" +
                  (map.from > map.to ? R"(, "onto": ")" + std::to_string(map.to) + "\"" : ""));
    int64_t volume = 1;
    for (int a = 0; a < ndim; ++a) volume *= size[a];
    const TemporaryPath file("pairs.safetensors");
    write_safetensors(file.path(), {{"shown.conv.weight", permutations(volume)}});
    NetworkSpec spec{"", {}, DType::F32, file.path(), 0};
    spec.description = R"({"name": "pairs", "ndim": )" + std::to_string(ndim) +
                       R"(, "in_channels": 8, "channels": [8], "layers": [)" + layers + "]}";
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  /// Numbers below feature_values().
  std::vector<float> features_of(int64_t count) const {
    Random random(65);
    std::vector<float> features(static_cast<size_t>(count * kChannels));
    for (float& value : features) value = static_cast<float>(random.below(feature_values()));
    return features;
  }
  /// So many that maxima differ, and so few that a sum of as many as a kernel has offsets is exact in
  /// float32.
  virtual uint64_t feature_values() const { return 1 << 16; }
  Execution by(minuet_plan* plan, minuet_map_method method, const std::vector<int64_t>& capacities = {},
               minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT) {
    options.map_method = method;
    if (!capacities.empty()) {
      options.level_capacity = capacities.data();
      options.level_count = static_cast<int32_t>(capacities.size());
    }
    return make_execution(machine(), plan, &options);
  }
  NetworkRun run(const Execution& execution, const Points& points, int ndim) {
    const auto count = static_cast<int64_t>(points.size()) / (1 + ndim);
    return run_network(machine(), execution.get(), points, encode(DType::F32, features_of(count)), DType::F32,
                       ndim, kChannels);
  }
  /// The rows of each level in what an execution of the plan has prepared.
  static std::vector<int64_t> rows_of(minuet_plan* plan, const Execution& execution) {
    std::vector<int64_t> rows;
    for (int32_t l = 0; l < info_of(plan).levels; ++l) {
      minuet_level_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_level(execution.get(), l, &info));
      rows.push_back(info.voxels);
    }
    return rows;
  }

  /// Device memory of clouds with three axes for one execution in capacity mode, whose output is on the last
  /// level.
  struct Room {
    Room(Machine& machine, const std::vector<int64_t>& capacities)
        : in_rows(capacities.front()),
          out_rows(capacities.back()),
          levels(static_cast<int32_t>(capacities.size())),
          coordinates(machine, in_rows * 16),
          features(machine, in_rows * kChannels * 4),
          output(machine, out_rows * kChannels * 4),
          places(machine, out_rows * 16),
          count(machine, 4) {}
    void fill(Machine& machine, const Points& points, const std::vector<float>& values) {
      const auto put = [&](const Buffer& target, const void* from, int64_t bytes) {
        if (bytes > 0) check(minuet_device_copy(machine.device(), target.data(), from, bytes, 0));
      };
      coordinates.poison(), features.poison(), output.poison();
      const auto said = static_cast<int32_t>(points.size() / 4);
      const int64_t rows = std::min<int64_t>(said, in_rows);
      put(coordinates, points.data(), rows * 16);
      put(features, values.data(), rows * kChannels * 4);
      put(count, &said, 4);
    }
    int64_t in_rows, out_rows;
    int32_t levels;
    Buffer coordinates, features, output, places, count;
  };
  void fill(Room& room, const Points& points) {
    room.fill(machine(), points, features_of(static_cast<int64_t>(points.size()) / 4));
  }
  static void enqueue(const Execution& execution, const Room& room, void* stream = nullptr) {
    check(minuet_execution_prepare_on_device(execution.get(), room.coordinates.integers(),
                                             room.count.integers(), stream));
    check(run_tensors(execution.get(), {tensor(room.features, room.in_rows, kChannels, DType::F32)},
                      tensor(room.output, room.out_rows, kChannels, DType::F32), stream));
    check(minuet_execution_output_coordinates(execution.get(), static_cast<int32_t*>(room.places.data()),
                                              stream));
  }
  /// Expects the status and the rows of the last level, and the output of `expected`, with zeros behind its
  /// rows.
  static void expect_output(const Execution& execution, const Room& room, uint32_t status,
                            const NetworkRun& expected, void* stream = nullptr) {
    uint32_t found = ~0u;
    std::vector<int32_t> counts(static_cast<size_t>(1 + room.levels));
    check(minuet_execution_read_cloud(execution.get(), &found, counts.data(), 1 + room.levels, stream));
    EXPECT_EQ(found, status);
    EXPECT_EQ(counts.back(), expected.rows);
    std::vector<char> bytes = expected.bytes;
    bytes.resize(static_cast<size_t>(room.output.bytes()));
    EXPECT_TRUE(room.output.read<char>() == bytes);
    Points places = expected.coordinates;
    places.resize(static_cast<size_t>(room.out_rows * 4));
    EXPECT_TRUE(room.places.read<int32_t>() == places);
  }

 private:
  static std::string axes_text(int ndim, const Axes& axes) {
    std::string text;
    for (int a = 0; a < ndim; ++a) text += (a ? ", " : "[") + std::to_string(axes[a]);
    return text + "]";
  }
  /// [volume, kChannels, kChannels]
  static FileTensor permutations(int64_t volume) {
    Random random(70);
    FileTensor weight{{volume, kChannels, kChannels},
                      std::vector<float>(static_cast<size_t>(volume * kChannels * kChannels))};
    for (int64_t k = 0; k < volume; ++k) {
      int64_t to[kChannels];
      for (int64_t c = 0; c < kChannels; ++c) to[c] = c;
      for (uint64_t c = kChannels; c > 1; --c) std::swap(to[c - 1], to[random.below(c)]);
      for (int64_t c = 0; c < kChannels; ++c)
        weight.values[static_cast<size_t>((k * kChannels + c) * kChannels + to[c])] = 1;
    }
    return weight;
  }
};

/// The clouds of a repeated or replayed prepare, with three axes: all of a cloud, less and less of it,
/// nothing, and all of it again.
inline std::vector<Points> make_parts(const Points& points) {
  std::vector<Points> parts;
  const size_t count = points.size() / 4;
  for (const size_t rows : {count, count / 3, size_t{7}, size_t{0}, count}) {
    parts.emplace_back(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(4 * rows));
  }
  return parts;
}

}  // namespace minuet::abi
