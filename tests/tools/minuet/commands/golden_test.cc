// The golden networks of MINUET_SHARED through the tool, as the command line has it.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/tools/folder.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

void check_network(const std::string& network, const std::string& channels) {
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
    EXPECT_EQ(contents(folder.path("oc.npy")),
              npy_bytes(golden.integers["out_coordinates"], golden.shapes["out_coordinates"]));
    int64_t rows = 0, columns = 0;
    auto output = read_npy_matrix(contents(folder.path("out.npy")), rows, columns);
    ASSERT_TRUE(!!output) << llvm::toString(output.takeError());
    EXPECT_EQ((std::vector<int64_t>{rows, columns}), golden.shapes["out_features"]);
    const double bound = error_bound(static_cast<DType>(dtype), /*network=*/true);
    EXPECT_TRUE(is_close(*output, golden.doubles["out_features"], columns, bound));
  }
}

TEST(Golden, MinkUNet42) { check_network("minkunet42", "8,8,16,24,32,32,24,16,16"); }
TEST(Golden, SparseResNet21D) { check_network("sparseresnet21d", "8,16,24,32"); }

}  // namespace
}  // namespace minuet::tool
