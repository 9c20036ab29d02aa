// The golden networks of MINUET_SHARED through the tool, as the command line has it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "llvm/Support/JSON.h"
#include "tests/support/expect.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/scalar.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

std::map<std::string, Tensor> read_safetensors(const std::string& path) {
  const std::string file = contents(path);
  const auto length = static_cast<size_t>(decode_integer(Scalar::U64, file.data(), false));
  llvm::Expected<llvm::json::Value> header = llvm::json::parse(llvm::StringRef(file).substr(8, length));
  std::map<std::string, Tensor> tensors;
  if (!header) return tensors;
  for (const auto& entry : *header->getAsObject()) {
    const llvm::json::Object& about = *entry.second.getAsObject();
    if (entry.first == "__metadata__") continue;
    const llvm::StringRef type = *about.getString("dtype");
    const Scalar scalar = type == "I32" ? Scalar::I32 : type == "F64" ? Scalar::F64 : Scalar::F32;
    Tensor tensor;
    int64_t count = 1;
    for (const llvm::json::Value& extent : *about.getArray("shape")) {
      tensor.shape.push_back(*extent.getAsInteger());
      count *= tensor.shape.back();
    }
    const char* data = file.data() + 8 + length + *(*about.getArray("data_offsets"))[0].getAsInteger();
    for (int64_t i = 0; i < count; ++i) {
      tensor.values.push_back(decode_scalar(scalar, data + i * scalar_bytes(scalar), false));
    }
    tensors[llvm::StringRef(entry.first).str()] = tensor;
  }
  return tensors;
}

std::string golden_folder() {
  const char* const shared = std::getenv("MINUET_SHARED");
  return std::string(shared && *shared ? shared : MINUET_SHARED_DEFAULT) + "/golden";
}

/// design/convolution.md: per tensor, and per row with ten times the bound.
void expect_within(const std::vector<float>& output, const Tensor& expected, double bound) {
  const auto rows = static_cast<size_t>(expected.shape[0]), columns = static_cast<size_t>(expected.shape[1]);
  ASSERT_EQ(output.size(), rows * columns);
  double difference = 0, norm = 0;
  std::vector<double> row_difference(rows), row_norm(rows);
  for (size_t i = 0; i < output.size(); ++i) {
    ASSERT_FALSE(std::isnan(output[i]));
    const double step = static_cast<double>(output[i]) - expected.values[i];
    row_difference[i / columns] += step * step;
    row_norm[i / columns] += expected.values[i] * expected.values[i];
  }
  for (size_t row = 0; row < rows; ++row) {
    difference += row_difference[row];
    norm += row_norm[row];
  }
  EXPECT_LT(std::sqrt(difference / norm), bound);
  const double typical = std::sqrt(norm / static_cast<double>(rows));
  for (size_t row = 0; row < rows; ++row) {
    EXPECT_LE(std::sqrt(row_difference[row]), 10 * bound * std::max(std::sqrt(row_norm[row]), typical))
        << "row " << row;
  }
}

void check_network(const std::string& network, const std::string& channels) {
  const std::string problem = golden_folder() + "/network_" + network + ".safetensors";
  if (!llvm::sys::fs::exists(problem)) {
    MINUET_SKIP_OR_FAIL("golden",
                        problem + " is not there; MINUET_SHARED names the folder with golden problems");
  }
  std::map<std::string, Tensor> tensors = read_safetensors(problem);
  const Tensor &coordinates = tensors["in_coordinates"], &features = tensors["in_features"];
  const Folder folder;
  folder.file("C.npy", npy_bytes(std::vector<int32_t>(coordinates.values.begin(), coordinates.values.end()),
                                 coordinates.shape));
  folder.file("F.npy",
              npy_bytes(std::vector<float>(features.values.begin(), features.values.end()), features.shape));
  const std::map<std::string, double> bounds = {
      {"fp32", 1e-5}, {"tf32", 1e-3}, {"fp16", 2e-3}, {"bf16", 1e-2}};
  for (const auto& [dtype, bound] : bounds) {
    SCOPED_TRACE(dtype);
    const Finished finished =
        minuet({"run", "--coordinates", folder.path("C.npy"), "--features", folder.path("F.npy"), "--network",
                network, "--channels", channels, "--weights",
                golden_folder() + "/network_" + network + "_weights.safetensors", "--dtype", dtype,
                "--output", folder.path("out.npy"), "--output-coordinates", folder.path("oc.npy")});
    ASSERT_EQ(finished.code, 0) << finished.err;
    int64_t rows = 0, columns = 0;
    auto places = read_npy_matrix(contents(folder.path("oc.npy")), rows, columns);
    ASSERT_TRUE(!!places) << llvm::toString(places.takeError());
    EXPECT_EQ(std::vector<double>(places->begin(), places->end()), tensors["out_coordinates"].values);
    auto output = read_npy_matrix(contents(folder.path("out.npy")), rows, columns);
    ASSERT_TRUE(!!output) << llvm::toString(output.takeError());
    EXPECT_EQ((std::vector<int64_t>{rows, columns}), tensors["out_features"].shape);
    expect_within(*output, tensors["out_features"], bound);
  }
}

TEST(Golden, MinkUNet42) { check_network("minkunet42", "8,8,16,24,32,32,24,16,16"); }
TEST(Golden, SparseResNet21D) { check_network("sparseresnet21d", "8,16,24,32"); }

}  // namespace
}  // namespace minuet::tool
