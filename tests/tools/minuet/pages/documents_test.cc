// Result files as the documents that the page of `minuet report` shows.
#include <gmock/gmock.h>

#include "codegen/base/json_text.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

using llvm::json::Object;
using llvm::json::Value;
using testing::HasSubstr;

Object document(const std::string& file, const std::string& text) {
  return llvm::cantFail(document_of(file, llvm::cantFail(parse_json(text))));
}

const Object& entry(const Object& document, llvm::StringRef list, size_t which) {
  return *(*document.getArray(list))[which].getAsObject();
}

Value rows_of(const Object& document, size_t table) { return *entry(document, "tables", table).get("rows"); }

/// The values of a series.
Value values_of(const Object& document, size_t plot, size_t series) {
  return *entry(entry(document, "plots", plot), "series", series).get("values");
}

Value parsed(const char* text) { return llvm::cantFail(parse_json(text)); }

TEST(Documents, OfABenchmark) {
  const Object made =
      document("h200/m.json", R"({"network": "minkunet42", "dtype": "fp16", "device": "D", "commit": "abc",
    "voxel_size": [0.05, 0.05, 0.1], "method": "host clock", "clouds": [
      {"cloud": "a", "voxels": {"unthinned": 7}, "wall_ms": {"median": 2.5, "p10": 2, "p90": 3, "min": 1.5},
       "stages_ms": {"sort": 1, "gather": 0, "gemm": 2},
       "levels": [{"tensor_stride": [1, 1, 1], "voxels": 7}, {"tensor_stride": [2, 2, 2], "voxels": 3}]},
      {"cloud": "b", "wall_ms": {"median": 4}}]})");
  EXPECT_EQ(made.getString("title"), llvm::StringRef("minkunet42, fp16"));
  EXPECT_EQ(made.getString("file"), llvm::StringRef("h200/m.json"));
  EXPECT_EQ(*made.get("machine"),
            parsed(R"({"device": "D", "commit": "abc", "network": "minkunet42", "dtype": "fp16",
                         "voxel_size": "0.05×0.05×0.1"})"));
  EXPECT_EQ(values_of(made, 0, 0),
            parsed(R"([{"x": "a", "y": 2.5, "low": 2, "high": 3}, {"x": "b", "y": 4}])"));
  ASSERT_EQ(entry(made, "plots", 1).getArray("series")->size(), 2u);  // what takes no time is left out
  EXPECT_EQ(values_of(made, 1, 1), parsed(R"([{"x": "a", "y": 2}])"));
  EXPECT_EQ(values_of(made, 2, 0), parsed(R"([{"x": 1, "y": 7}, {"x": 2, "y": 3}])"));
  EXPECT_EQ(rows_of(made, 0), parsed(R"([["a", 7, 2.5, 2, 3, 1.5, null, null, null, null],
                                         ["b", null, 4, null, null, null, null, null, null, null]])"));
}

TEST(Documents, OfARun) {
  const Object made =
      document("r.json", R"({"network": "n", "dtype": "fp32", "cloud": "c.bin", "device": "cuda:0",
    "first_ms": 10, "total_ms": 2, "repeats": 3, "stages_ms": {"gemm": 1.5, "voxelize": 3},
    "levels": [{"tensor_stride": [1, 1, 1], "voxels": 5}],
    "kernels": {"compiled": 1, "bundle_hits": 0, "disk_hits": 4, "memory_hits": 0},
    "kernel_list": [{"name": "k", "origin": "disk", "registers": 32, "shared_bytes": 16, "cubin_bytes": 9,
                     "compile_ms": 0}],
    "layers": [{"name": "stem", "kernel_size": [3, 3, 3], "stride": [1, 1, 1], "in_channels": 4, "out_channels": 32,
                "pairs": 1000000, "padded_rows": 0, "gemm_groups": 1, "dataflow": "fused", "kernel": "f",
                "gather_ms": 0, "gemm_ms": 1.25, "scatter_ms": 0.5},
               {"name": "cross", "kernel_size": [1, 1, 1], "offset_count": 7, "stride": [1, 1, 1], "in_channels": 32,
                "out_channels": 32, "pairs": 0, "padded_rows": 0, "gemm_groups": 0, "dataflow": "fused", "kernel": "f",
                "gather_ms": 0, "gemm_ms": 0, "scatter_ms": 0}]})");
  EXPECT_EQ(made.getString("title"), llvm::StringRef("n, fp32, c.bin"));
  EXPECT_EQ(
      *made.get("notes"),
      parsed(
          R"(["The first inference, including its preparation, took 10.00 ms; the median of 3 warm inferences is 2.00 ms.",
                       "Kernels: 1 compiled, 0 from bundles, 4 from disk, 0 in memory."])"));
  ASSERT_EQ(entry(made, "plots", 1).getArray("series")->size(), 2u);
  EXPECT_EQ(values_of(made, 1, 1), parsed(R"([{"x": "stem", "y": 0.5}, {"x": "cross", "y": 0}])"));
  EXPECT_EQ(values_of(made, 2, 0), parsed(R"([{"x": "stem", "y": 0.128}, {"x": "cross", "y": 0}])"));
  EXPECT_EQ(rows_of(made, 0),
            parsed(R"([["stem", "3×3×3", "1×1×1", 4, 32, 1000000, 0, 1, 0, 1.25, 0.5, "fused", "f"],
                       ["cross", "7 offsets", "1×1×1", 32, 32, 0, 0, 0, 0, 0, 0, "fused", "f"]])"));
  EXPECT_EQ(rows_of(made, 1), parsed(R"([["k", "disk", 32, 16, 9, 0]])"));
}

TEST(Documents, OfAQuantization) {
  const Object made =
      document("q.json", R"({"network": "n", "clouds": ["a.bin", "b.bin"], "calibration": "max",
    "dtype": "fp32", "device": "cpu", "run": "minuet run a.bin", "notes": ["one more"],
    "layers": [{"name": "stem", "precision": "float", "range": 2, "relative_error": 0, "cosine": 1,
                "can_be_int8": false, "reason": "it has groups"},
               {"name": "down", "precision": "int8", "range": 3.5, "relative_error": 0.25, "cosine": 0.75,
                "can_be_int8": true, "own_error": 0.125},
               {"name": "up", "precision": "int8", "range": 1, "relative_error": null, "cosine": null,
                "can_be_int8": true}],
    "outputs": [{"name": "x", "relative_error": 0.5, "cosine": 0.875},
                {"name": "y", "relative_error": null, "cosine": null}]})");
  EXPECT_EQ(made.getString("title"), llvm::StringRef("n in 8 bits"));
  EXPECT_EQ(*made.get("machine"), parsed(R"({"device": "cpu", "network": "n", "dtype": "fp32",
                                             "calibration": "max", "run": "minuet run a.bin"})"));
  const llvm::json::Array& notes = *made.getArray("notes");
  ASSERT_EQ(notes.size(), 5u);
  EXPECT_EQ(notes[0], Value("2 convolutions of 3 compute in 8 bits."));
  EXPECT_EQ(notes[1], Value("The output x has the relative error 0.5 and the cosine 0.875."));
  EXPECT_EQ(notes[2], Value("The output y has no relative error and no cosine."));
  EXPECT_EQ(notes[4], Value("one more"));
  EXPECT_EQ(values_of(made, 0, 0), parsed(R"([{"x": "stem", "y": 0}, {"x": "down", "y": 0.25}])"));
  EXPECT_EQ(values_of(made, 0, 1), parsed(R"([{"x": "down", "y": 0.125}])"));
  EXPECT_EQ(values_of(made, 1, 0), parsed(R"([{"x": "down", "y": 0.25}])"));  // 1 has no place on the axis.
  EXPECT_EQ(rows_of(made, 0), parsed(R"([["stem", "float", 2, null, 0, 1, "it has groups"],
                                         ["down", "int8", 3.5, 0.125, 0.25, 0.75, null],
                                         ["up", "int8", 1, null, null, null, null]])"));
  EXPECT_EQ(rows_of(made, 1), parsed(R"([["a.bin"], ["b.bin"]])"));
}

TEST(Documents, OfAStudyAreKept) {
  const std::string study =
      R"({"study": "s", "title": "t", "device": "d", "seconds": 3, "claims": [], "notes": ["n"],
    "tables": [{"title": "u", "columns": ["a", "b"], "rows": [[1, "x"], [null, true]]}],
    "plots": [{"kind": "line", "x": {"label": "x", "log": true}, "y": {"label": "y"},
               "series": [{"name": "s", "values": [{"x": 1, "y": -2, "low": -3, "high": 0}]}]}]})";
  Object made = document("o.json", study);
  EXPECT_EQ(*made.get("machine"), parsed(R"({"device": "d"})"));
  made.erase("file");
  made.erase("machine");
  EXPECT_EQ(Value(std::move(made)), parsed(study.c_str()));
}

TEST(Documents, OfAnotherFormAreRefused) {
  for (const char* text : {"3", "[]", "{}", R"({"tables": [], "plots": []})",
                           R"({"study": "s", "plots": []})", R"({"compiled": 3, "found": 0})"}) {
    EXPECT_THAT(error_of(document_of("f.json", parsed(text))),
                HasSubstr("minuet bench --output, minuet run --json, minuet quantize --json and minuet-study "
                          "write result files"));
  }
}

}  // namespace
}  // namespace minuet::tool
