#include "runtime/plan/parameters.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>

#include "kernels_templates/shared/elements.h"
#include "runtime/weights/rounding.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet {
namespace {

using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  std::string write(const std::string& header, const std::string& data, long header_length = -1) {
    std::ofstream file(file_.path(), std::ios::binary);
    const uint64_t length = header_length < 0 ? header.size() : static_cast<uint64_t>(header_length);
    for (int i = 0; i < 8; ++i) file.put(static_cast<char>(length >> (8 * i)));
    file << header << data;
    return file_.path();
  }
  std::string error_of(const std::string& path) {
    llvm::Expected<TensorFile> file = TensorFile::open(path);
    return file ? "" : take_status(file.takeError()).message();
  }

 private:
  // The suite also runs under a locale with a decimal comma, perhaps at the same time.
  const TemporaryPath file_{"parameters.safetensors"};
};

const char kOneTensor[] =
    R"({"__metadata__": {"a": "b"}, "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}})";

TEST_F(Safetensors, ReadsWhatWasWritten) {
  const float values[2] = {1.5f, -2.25f};
  const std::string path =
      write(kOneTensor, std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  const TensorFile file = llvm::cantFail(TensorFile::open(path));
  EXPECT_EQ(llvm::cantFail(file.read("w", {1, 2})), (std::vector<float>{1.5f, -2.25f}));
  EXPECT_NE(take_status(file.read("w", {2, 1}).takeError()).message().find("needs [2, 1]"),
            std::string::npos);
  EXPECT_NE(take_status(file.read("v", {1}).takeError()).message().find("no tensor \"v\""),
            std::string::npos);
}

TEST_F(Safetensors, DoublesThatFloatsCannotHoldAreNamed) {
  const double values[] = {1, 3.4e38, -1e300, 1e-300};
  const std::string path = write(R"({"w": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]}})",
                                 std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  const std::string error =
      take_status(llvm::cantFail(TensorFile::open(path)).read("w", {2, 2}).takeError()).message();
  EXPECT_NE(error.find("\"w\" is -1e+300 at [1, 0], which float32 cannot hold"), std::string::npos) << error;
}

TEST_F(Safetensors, DamagedFilesAreNamedNotRead) {
  EXPECT_NE(error_of("/nonexistent.safetensors").find("No such file"), std::string::npos);
  EXPECT_NE(error_of(write(kOneTensor, "short")).find("truncated"), std::string::npos);
  EXPECT_NE(error_of(write(kOneTensor, "", 1 << 30)).find("truncated"), std::string::npos);
  for (const char* offsets : {"[4, 0]", "[0, 2, 4]"}) {
    EXPECT_THAT(error_of(write(
                    std::string(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": )") + offsets + "}}",
                    "1234")),
                HasSubstr("\"data_offsets\" of tensor \"w\" are not a range"));
  }
  EXPECT_NE(error_of(write("{]", "")).find("not JSON"), std::string::npos);
  EXPECT_NE(error_of(write(R"({"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 8]}})", "12345678"))
                .find("bytes"),
            std::string::npos);
  EXPECT_NE(
      error_of(write(R"({"w": {"dtype": "F32", "shape": [4611686018427387904, 8], "data_offsets": [0, 8]}})",
                     "12345678"))
          .find("has too many elements"),
      std::string::npos);
}

/// A tensor has as many bytes as its shape and dtype say: not one less, and not one more.
TEST_F(Safetensors, ATensorHasExactlyTheBytesOfItsShape) {
  const std::tuple<const char*, int, const char*, int> tensors[] = {
      {"F64", 8, "[2]", 2},    {"F32", 4, "[]", 1},      {"F32", 4, "[2, 2]", 4}, {"F32", 4, "[0, 3]", 0},
      {"F16", 2, "[3, 1]", 3}, {"BF16", 2, "[1, 5]", 5}, {"BF16", 2, "[0]", 0}};
  for (const auto& [type, element, shape, count] : tensors) {
    for (int bytes = 0; bytes <= (count + 1) * element; ++bytes) {
      const std::string size = std::to_string(bytes);
      const std::string header = std::string(R"({"w": {"dtype": ")") + type + R"(", "shape": )" + shape +
                                 R"(, "data_offsets": [0, )" + size + "]}}";
      const std::string error = error_of(write(header, std::string(static_cast<size_t>(bytes), '0')));
      const bool fits = bytes == count * element;
      EXPECT_THAT(error, HasSubstr(fits ? "" : "has " + size + " bytes")) << header;
      EXPECT_EQ(error.empty(), fits) << header << " " << error;
    }
  }
}

/// A mark of ours that is not understood is not one that is not there.
TEST_F(Safetensors, MetadataAreTexts) {
  EXPECT_EQ(error_of(write(R"({"__metadata__": {}})", "")), "");
  EXPECT_THAT(error_of(write(R"({"__metadata__": "pt"})", "")), HasSubstr("is not a JSON object"));
  EXPECT_THAT(error_of(write(R"({"__metadata__": {"minuet.weights_order": 7}})", "")),
              HasSubstr("\"minuet.weights_order\" of its metadata is not a string"));
}

/// The format has neither holes nor overlaps: a file that has them is damaged, or hides something.
TEST_F(Safetensors, EveryByteBelongsToOneTensor) {
  const auto error = [&](const std::string& a, const std::string& b, const std::string& c) {
    const auto tensor = [](const char* name, const std::string& offsets) {
      return std::string("\"") + name + R"(": {"dtype": "X8", "shape": [], "data_offsets": [)" + offsets +
             "]}";
    };
    return error_of(
        write("{" + tensor("c", c) + "," + tensor("a", a) + "," + tensor("b", b) + "}", "0123456789abcdef"));
  };
  EXPECT_EQ(error("0, 8", "8, 16", "8, 8"), "");
  EXPECT_EQ(error("8, 16", "0, 8", "0, 0"), "");
  EXPECT_THAT(error("0, 8", "9, 16", "0, 0"), HasSubstr("1 bytes before tensor \"b\" belong to no tensor"));
  EXPECT_THAT(error("4, 8", "8, 16", "4, 4"), HasSubstr("4 bytes before tensor \"c\" belong to no tensor"));
  EXPECT_THAT(error("0, 8", "6, 16", "0, 0"), HasSubstr("tensor \"b\" begins inside another one"));
  EXPECT_THAT(error("0, 8", "8, 13", "0, 0"), HasSubstr("its last 3 bytes belong to no tensor"));
  // Tensors that share bytes are refused also where all sizes together are those of the file.
  EXPECT_THAT(error("0, 8", "4, 12", "12, 12"), HasSubstr("tensor \"b\" begins inside another one"));
  EXPECT_THAT(error("0, 8", "0, 8", "16, 16"), HasSubstr("begins inside another one"));
  EXPECT_THAT(error("0, 4", "2, 6", "8, 16"), HasSubstr("tensor \"b\" begins inside another one"));
  EXPECT_THAT(error("0, 12", "4, 6", "14, 16"), HasSubstr("tensor \"b\" begins inside another one"));
  EXPECT_THAT(error("0, 16", "8, 8", "16, 16"), HasSubstr("tensor \"b\" begins inside another one"));
  EXPECT_EQ(error_of(write("{}", "")), "");
  EXPECT_THAT(error_of(write("{}", "1234")), HasSubstr("its last 4 bytes belong to no tensor"));
}

/// Any number of axes: a tap of the file is told by its digits, one an axis.
TEST(WeightsOrder, OfFourAxes) {
  ConvolutionProblem problem;
  problem.ndim = 4;
  problem.kernel_size = {3, 1, 5, 3};
  problem.in_channels = problem.out_channels = 1;
  const auto tap = [](int a, int b, int c, int d) {
    return static_cast<float>(1000 * a + 100 * b + 10 * c + d);
  };
  std::vector<float> expected, first_fastest;  // last axis fastest; first
  for (int a = 0; a < 3; ++a)
    for (int c = 0; c < 5; ++c)
      for (int d = 0; d < 3; ++d) expected.push_back(tap(a, 0, c, d));
  for (int d = 0; d < 3; ++d)
    for (int c = 0; c < 5; ++c)
      for (int a = 0; a < 3; ++a) first_fastest.push_back(tap(a, 0, c, d));
  const auto read = [&](WeightsOrder order, const std::vector<i64>& shape, const std::vector<float>& stored) {
    const WeightLayout layout = weight_layouts(order, problem, "w").front();
    EXPECT_EQ(layout.shape, shape);
    return to_minuet_order(layout, problem, stored);
  };
  EXPECT_EQ(read(WeightsOrder::Minuet, {45, 1, 1}, expected), expected);
  EXPECT_EQ(read(WeightsOrder::Minkowski, {45, 1, 1}, first_fastest), expected);
  EXPECT_EQ(read(WeightsOrder::TorchSparse, {45, 1, 1}, first_fastest), expected);
  EXPECT_EQ(read(WeightsOrder::Spconv, {1, 3, 5, 1, 3, 1}, first_fastest), expected);
  EXPECT_EQ(read(WeightsOrder::SpconvXyz, {1, 3, 1, 5, 3, 1}, expected), expected);
}

ProgramLayer random_layer(const std::string& name, DType dtype) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.in_channels = 16;
  problem.out_channels = 32;
  problem.kernel_size = {3, 3, 3, 1};
  ProgramLayer layer(problem);
  layer.name = name;
  layer.weight = name + ".conv.weight";
  layer.batch_norm = name + ".bn";
  return layer;
}

TEST(Parameters, DrawnWeightsHaveTheStatedVarianceAndHoldInTheDtype) {
  const LayerParameters drawn = llvm::cantFail(ParameterSource(7).layer(random_layer("a", DType::F16)));
  double sum = 0, squares = 0;
  for (float value : drawn.weight) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = static_cast<double>(drawn.weight.size());
  EXPECT_EQ(drawn.weight.size(), 27u * 16 * 32);
  EXPECT_NEAR(sum / count, 0, 5e-3);
  EXPECT_NEAR(squares / count / (2.0 / (27 * 16)), 1, 0.05);
  // The same numbers whatever the dtype, each rounded once.
  const std::vector<float> exact =
      llvm::cantFail(ParameterSource(7).layer(random_layer("a", DType::F32))).weight;
  for (const DType dtype : {DType::TF32, DType::F16, DType::BF16}) {
    EXPECT_EQ(llvm::cantFail(ParameterSource(7).layer(random_layer("a", dtype))).weight,
              round_to(dtype, exact));
  }
  for (float scale : drawn.scale) EXPECT_NEAR(scale, 1, 0.6);
}

TEST(Parameters, ADrawDependsOnNameAndSeedOnly) {
  const auto weight = [](uint64_t seed, const char* name) {
    return llvm::cantFail(ParameterSource(seed).layer(random_layer(name, DType::F32))).weight;
  };
  EXPECT_EQ(weight(1, "a"), weight(1, "a"));
  EXPECT_NE(weight(1, "a"), weight(2, "a"));
  EXPECT_NE(weight(1, "a"), weight(1, "b"));
}

/// Any number of values may be stored and loaded, at addresses that are no multiple of an element.
TEST(Rounding, StoresAndLoadsAnywhere) {
  Random random(5);
  for (const std::size_t count : {0, 1, 7, 33, 4095, 4096, 4097, 9000}) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.normal());
    if (count > 4) values[count - 1] = NAN, values[count / 2] = 1e30f;
    for (const DType type : kDTypes) {
      const auto element = static_cast<std::size_t>(dtype_bytes(type));
      std::vector<char> memory(count * element + 3, '~');
      store_values(type, values.data(), count, memory.data() + 1);
      EXPECT_EQ(memory.front(), '~');
      EXPECT_EQ(memory[count * element + 1], '~');
      std::vector<float> loaded(count + 1, 7.0f);
      load_values(type, memory.data() + 1, count, loaded.data());
      EXPECT_EQ(loaded.back(), 7.0f);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected =
            with_dtype(type, [&]<DType T>() { return Element<T>::load(Element<T>::store(values[i])); });
        ASSERT_EQ(std::memcmp(&loaded[i], &expected, sizeof(float)), 0) << values[i];
      }
    }
  }
}

/// One value that is not finite, anywhere among many.
TEST(Rounding, CopiesAreRoundedAndLookedAt) {
  Random random(6);
  for (const std::size_t count : {1, 100, 4096, 10000}) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.normal());
    for (const DType type : kDTypes) {
      std::vector<float> expected;
      for (const float value : values) expected.push_back(round_to(type, value));
      bool all_finite = false;
      EXPECT_EQ(rounded_copy(type, values, all_finite), expected);
      EXPECT_TRUE(all_finite);
      EXPECT_EQ(find_lost(type, values), std::nullopt);
      for (const std::size_t place : {std::size_t{0}, count / 2, count - 1}) {
        for (const float strange : {INFINITY, -INFINITY, NAN, std::numeric_limits<float>::max()}) {
          if (type == DType::F32 && std::isfinite(strange)) continue;
          std::vector<float> spoilt = values;
          spoilt[place] = strange;
          const std::vector<float> copy = rounded_copy(type, spoilt, all_finite);
          EXPECT_FALSE(all_finite) << place;
          EXPECT_FALSE(std::isfinite(copy[place]));
          EXPECT_EQ(find_lost(type, spoilt), place);
        }
      }
    }
  }
  bool all_finite = false;
  EXPECT_TRUE(rounded_copy(DType::F16, {}, all_finite).empty() && all_finite);
}

TEST(Rounding, Tf32RoundsToNearestAwayFromZero) {
  float values[] = {1.0f, 1.0f + 0x1p-11f, 1.0f + 0x1p-12f, -(1.0f + 0x1p-11f), INFINITY, NAN};
  round_values(DType::TF32, values, 6, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 1.0f + 0x1p-10f);
  EXPECT_EQ(values[2], 1.0f);
  EXPECT_EQ(values[3], -(1.0f + 0x1p-10f));
  EXPECT_EQ(values[4], INFINITY);
  EXPECT_TRUE(std::isnan(values[5]));
}

}  // namespace
}  // namespace minuet
