// The golden networks of MINUET_SHARED through the tool, as the command line has it.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/row_order.h"
#include "tests/tools/folder.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

void check_network(const std::string& network, const std::string& channels, bool is_on_level_0) {
  MINUET_SKIP_WITHOUT_GOLDEN();
  GoldenFile golden = read_golden("network_" + network);
  const std::string weights = shared_folder() + "/golden/network_" + network + "_weights.safetensors";
  const Folder folder;
  folder.file("C.npy", npy_bytes(golden.integers["in_coordinates"], golden.shapes["in_coordinates"]));
  folder.file("F.npy", npy_bytes(golden.floats["in_features"], golden.shapes["in_features"]));
  for (minuet_dtype dtype = 0; dtype < kDTypeCount; ++dtype) {
    SCOPED_TRACE(dtype_name(dtype));
    const Finished finished =
        minuet({"run", "--coordinates", folder.path("C.npy"), "--features", folder.path("F.npy"), "--network",
                network, "--channels", channels, "--weights", weights, "--dtype", dtype_name(dtype),
                "--output", folder.path("out.npy"), "--output-coordinates", folder.path("oc.npy")});
    ASSERT_EQ(finished.code, 0) << finished.err;
    const std::vector<int32_t>& expected_coordinates = golden.integers["out_coordinates"];
    const std::string file = contents(folder.path("oc.npy")),
                      expected_file = npy_bytes(expected_coordinates, golden.shapes["out_coordinates"]);
    ASSERT_EQ(file.size(), expected_file.size());
    std::vector<int32_t> coordinates(expected_coordinates.size());
    const size_t header = file.size() - coordinates.size() * sizeof(int32_t);
    EXPECT_EQ(file.substr(0, header), expected_file.substr(0, header));
    std::memcpy(coordinates.data(), file.data() + header, file.size() - header);
    // The rows of a coarser level are in an order of the library's.
    const std::vector<int32_t> order =
        is_on_level_0 ? std::vector<int32_t>{} : ascending_rows(coordinates, 3);
    EXPECT_EQ(take_rows(coordinates, order), expected_coordinates);
    int64_t rows = 0, columns = 0;
    auto output = read_npy_matrix(contents(folder.path("out.npy")), rows, columns);
    ASSERT_TRUE(!!output) << llvm::toString(output.takeError());
    EXPECT_EQ((std::vector<int64_t>{rows, columns}), golden.shapes["out_features"]);
    const double bound = error_bound(static_cast<DType>(dtype), /*network=*/true);
    EXPECT_TRUE(is_close(take_rows(*output, order), golden.doubles["out_features"], columns, bound));
  }
}

TEST(Golden, MinkUNet42) { check_network("minkunet42", "8,8,16,24,32,32,24,16,16", true); }
TEST(Golden, SparseResNet21D) { check_network("sparseresnet21d", "8,16,24,32", false); }

}  // namespace
}  // namespace minuet::tool
