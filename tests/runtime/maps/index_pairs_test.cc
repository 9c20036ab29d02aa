// Kernel maps of networks by an index of voxels (kernels_templates/shared/voxel_index.h) and by sorting: the
// same pairs of every map, on clouds that are hard for an index and on large ones; through the C ABI, on
// every device.
#include <string>

#include "tests/runtime/maps/index_network_fixture.h"

namespace minuet::abi {
namespace {

class IndexPairsTest : public IndexedNetworks {
 protected:
  void expect_the_sorted_pairs(int ndim, const std::vector<ShownMap>& maps,
                               const std::vector<NamedCloud>& clouds) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.keep_first_duplicate = 1;
    for (const ShownMap& map : maps) {
      const Plan plan = network(ndim, map);
      const Execution index = by(plan.get(), MINUET_MAPS_INDEXED, {}, options),
                      sorted = by(plan.get(), MINUET_MAPS_SORTED, {}, options);
      for (const auto& [name, points] : clouds) {
        SCOPED_TRACE(std::to_string(ndim) + " axes, level " + std::to_string(map.from) + " to " +
                     std::to_string(map.to) + ", " + name);
        NetworkRun found = run(index, points, ndim), expected = run(sorted, points, ndim);
        EXPECT_TRUE(shows_pairs(expected));
        EXPECT_EQ(rows_of(plan.get(), index), rows_of(plan.get(), sorted));
        if (map.to > 0) {
          found = ascending(std::move(found), ndim), expected = ascending(std::move(expected), ndim);
        }
        EXPECT_TRUE(found == expected);
      }
    }
  }

 private:
  /// Every row has a pair at least.
  static bool shows_pairs(const NetworkRun& run) {
    const std::vector<float> values = decode(DType::F32, run.bytes);
    for (int64_t row = 0; row < run.rows; ++row) {
      const auto first = values.begin() + row * kChannels;
      if (std::all_of(first, first + kChannels, [](float value) { return value == 0; })) return false;
    }
    return true;
  }
};

TEST_P(IndexPairsTest, EveryMapOfEveryLevel) {
  std::vector<ShownMap> maps(std::begin(kShownMaps), std::end(kShownMaps));
  if (takes_few_clouds(machine())) maps = {{1, 1}, {1, 0}};
  for (int ndim = 1; ndim <= 4; ++ndim) {
    if (takes_few_clouds(machine()) && ndim != 3) continue;
    std::vector<NamedCloud> clouds = make_clouds(ndim, /*sorts=*/true);
    clouds.push_back({"duplicates", repeated(make_random(ndim, 100, 71), ndim, 3, 72)});
    if (takes_few_clouds(machine())) clouds.erase(clouds.begin(), clouds.end() - 3);
    expect_the_sorted_pairs(ndim, maps, clouds);
  }
}

/// On the CPU it takes minutes.
TEST_P(IndexPairsTest, OfFiveMillionVoxels) {
  if (takes_few_clouds(machine())) GTEST_SKIP() << "takes long on the software device and under a sanitizer";
  if (machine().is_cpu() && !long_tests_wanted()) GTEST_SKIP() << "MINUET_LONG_TESTS=1 runs it on the CPU";
  for (int ndim = 1; ndim <= 4; ++ndim) {
    expect_the_sorted_pairs(ndim, {{0, 0}, {3, 3}, {1, 0}},
                            {{"five million voxels", make_large(ndim, 5'000'000)}});
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexPairsTest);

}  // namespace
}  // namespace minuet::abi
