// Every study at its smallest size, as a user runs it: what its file has, and that `minuet report` shows it.
#include <gmock/gmock.h>

#include <set>

#include "codegen/base/json_text.h"
#include "tests/support/expect.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/commands/gpu.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using testing::HasSubstr;

const std::set<std::string> kStudies = {"batch",  "breakdown", "dataflow", "density", "dtype",   "end_to_end",
                                        "gmas",   "index",     "layers",   "map",     "padding", "search",
                                        "shells", "specs",     "tiles",    "voxels"};
/// Of what the paper's text reports nothing.
const std::set<std::string> kOwn = {"batch", "dataflow", "dtype", "index", "shells", "specs", "voxels"};

class Studies : public testing::Test {
 protected:
  /// Runs them into the folder `results`.
  void run(std::vector<std::string> names, const std::string& device) {
    for (const char* word : {"--size", "tiny", "--device", device.c_str(), "--commit", "abc", "--output"})
      names.push_back(word);
    names.push_back(results());
    const Finished finished = run_program(MINUET_STUDY, names);
    ASSERT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    out_ = finished.out;
  }
  std::string results() const { return folder_.path("results"); }
  Object read(const std::string& study) const { return json_in(results() + "/" + study + ".json"); }

  static void check_claims(const std::string& study, const Object& file) {
    const Array& claims = *file.getArray("claims");
    EXPECT_EQ(claims.empty(), kOwn.count(study) == 1) << study;
    for (const llvm::json::Value& value : claims) {
      const Object& claim = *value.getAsObject();
      const std::string shape = claim.getString("shape")->str();
      EXPECT_THAT(shape, testing::AnyOf("holds", "does not hold", "not measured")) << study;
      EXPECT_EQ(shape == "holds", claim.getString("why")->empty()) << study;
      EXPECT_FALSE(claim.getString("paper")->empty()) << study;
      EXPECT_FALSE(claim.getString("here")->empty()) << study;
    }
  }
  /// Times are medians between their ends, of several runs.
  static void check_times(const std::string& study, const Object& file) {
    for (const llvm::json::Value& plot : *file.getArray("plots")) {
      for (const llvm::json::Value& series : *plot.getAsObject()->getArray("series")) {
        for (const llvm::json::Value& value : *series.getAsObject()->getArray("values")) {
          const Object& point = *value.getAsObject();
          if (!point.get("runs")) continue;
          EXPECT_GE(*point.getInteger("runs"), 3) << study;
          EXPECT_GT(*point.getNumber("y"), 0) << study;
          EXPECT_LE(*point.getNumber("min"), *point.getNumber("low")) << study;
          EXPECT_LE(*point.getNumber("low"), *point.getNumber("y")) << study;
          EXPECT_LE(*point.getNumber("y"), *point.getNumber("high")) << study;
          EXPECT_LE(*point.getNumber("high"), *point.getNumber("max")) << study;
        }
      }
    }
  }
  void check_file(const std::string& study) const {
    const Object file = read(study);
    EXPECT_EQ(file.getString("study"), llvm::StringRef(study));
    EXPECT_EQ(file.getString("commit"), llvm::StringRef("abc"));
    EXPECT_EQ(file.getString("size"), llvm::StringRef("tiny"));
    for (const char* name : {"device", "version", "dtype", "method"})
      EXPECT_FALSE(text_or_empty(file, name).empty()) << study << ": " << name;
    EXPECT_TRUE(file.getString("driver") && file.getString("toolkit")) << study;
    EXPECT_GE(*file.getNumber("seconds"), 0) << study;
    check_claims(study, file);
    check_times(study, file);
    llvm::Expected<Object> document = document_of(study + ".json", llvm::json::Value(Object(file)));
    ASSERT_TRUE(static_cast<bool>(document)) << study << ": " << llvm::toString(document.takeError());
  }
  /// Each layer alone, its map alone, and both by the host's clock, as a line of the table.
  void check_shells() const {
    const Object file = read("shells");
    for (const size_t series : {0, 1, 2}) EXPECT_EQ(values(file, 0, series), 3u);
    const Array& rows = *(*file.getArray("tables"))[0].getAsObject()->getArray("rows");
    ASSERT_EQ(rows.size(), 3u);
    const Array& shell = *rows[0].getAsArray();
    EXPECT_EQ(shell[0].getAsString(), llvm::StringRef("shell_12"));
    EXPECT_EQ(*shell[1].getAsInteger(), 480);
    EXPECT_EQ(*shell[2].getAsNumber(), 13.2);
    EXPECT_EQ(*shell[3].getAsInteger(), 8);
    for (const size_t median : {4, 7, 10}) {
      EXPECT_LE(*shell[median + 1].getAsNumber(), *shell[median].getAsNumber());
      EXPECT_GE(*shell[median + 2].getAsNumber(), *shell[median].getAsNumber());
    }
  }
  /// Two clouds, queried by the baseline's two searches and the library's two methods, and built by three
  /// ways.
  void check_map() const {
    const Object file = read("map");
    for (const size_t series : {0, 1, 2, 3}) EXPECT_EQ(values(file, 0, series), 2u);
    for (const size_t series : {0, 1, 2}) EXPECT_EQ(values(file, 1, series), 2u);
  }
  /// Bounds, capacities with two kinds of slots, and the memory of each cloud. Few slots may be too few for
  /// the sparse cloud, which comes last.
  void check_index() const {
    const Object file = read("index");
    for (const size_t cloud : {0, 1}) {
      EXPECT_EQ(values(file, 0, cloud), 4u);
      for (const size_t slots : {0, 1}) EXPECT_EQ(values(file, 1, 2 * cloud + slots), 2u);
    }
    for (const size_t plot : {2, 3}) EXPECT_EQ(values(file, plot, 0), 5u);
    EXPECT_EQ((*file.getArray("tables"))[0].getAsObject()->getArray("rows")->size(), 2u);
  }
  static size_t values(const Object& file, size_t plot, size_t series) {
    const Object& all = *(*file.getArray("plots"))[plot].getAsObject();
    return (*all.getArray("series"))[series].getAsObject()->getArray("values")->size();
  }

  Folder folder_;
  std::string out_;
};

TEST_F(Studies, AllRunOnTheCpu) {
  run({"all"}, "cpu");
  for (const std::string& study : kStudies) {
    check_file(study);
    EXPECT_THAT(out_, HasSubstr("/" + study + ".json"));
  }
  // What the CPU lacks is said, and nothing is made up in its place.
  for (const char* study : {"search", "specs", "tiles"}) {
    EXPECT_TRUE(read(study).getArray("plots")->empty());
    EXPECT_TRUE(read(study).getArray("tables")->empty());
  }
  EXPECT_THAT(out_, HasSubstr("shape: not measured (the CPU's"));
  check_shells();
  for (const char* study : {"batch", "voxels"}) {
    for (const size_t series : {0, 1, 2, 3}) EXPECT_EQ(values(read(study), 0, series), 2u);
  }
  check_map();
  check_index();
  EXPECT_EQ(values(read("breakdown"), 0, 0), 5u);  // without tiles

  const std::string page = folder_.path("page.html");
  const Finished shown = minuet({"report", results(), "--output", page});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const std::string html = contents(page);
  for (const char* text :
       {"hash-table baseline", "The paper's four ideas", "8.2 % padding", "nothing to tune", "shell_12"})
    EXPECT_THAT(html, HasSubstr(text));
}

TEST_F(Studies, AStudyIsRunOnceAndAloneWhereItIsNamedTwice) {
  run({"padding", "padding"}, "cpu");
  check_file("padding");
  EXPECT_EQ(out_.find("padding.json"), out_.rfind("padding.json"));
  EXPECT_FALSE(llvm::sys::fs::exists(results() + "/map.json"));
}

TEST_F(Studies, WrongCommandLinesAreRefused) {
  const std::string file = folder_.file("p.bin", "");
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"--output", results()}, "NAME is required (minuet-study --help lists the flags)"},
      {{"mapp", "--output", results()}, "the study 'mapp' is not one of all, end_to_end, layers, map, gmas"},
      {{"map"}, "--output is required"},
      {{"map", "--output", file}, "p.bin' is not a folder"},
      {{"map", "--output", results(), "--size", "large"}, "large not in"},
      {{"map", "--output", results(), "--dtype", "fp8"}, "is not one of fp32, tf32"},
      {{"map", "--output", results(), "--threads", "0"}, "--threads"}};
  for (const auto& [arguments, says] : cases) {
    const Finished finished = run_program(MINUET_STUDY, arguments);
    EXPECT_EQ(finished.code, 2) << says;
    EXPECT_THAT(finished.err, HasSubstr(says));
  }
  EXPECT_THAT(run_program(MINUET_STUDY, {"--help"}).out,
              HasSubstr("end_to_end   MinkUNet42 and SparseResNet21D"));
}

class StudiesOnTheGpu : public Studies {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) MINUET_SKIP_OR_FAIL("gpu", reason);
  }
};

TEST_F(StudiesOnTheGpu, BAndCAndTheHashTable) {
  run({"search", "map"}, "cuda:0");
  check_file("search");
  check_file("map");
  check_map();
  for (size_t cloud = 0; cloud < 2; ++cloud) {
    for (size_t block = 0; block < 2; ++block) EXPECT_EQ(values(read("search"), cloud, block), 2u);
  }
  EXPECT_THAT(out_, HasSubstr("the best block sizes are B = "));
}

TEST_F(StudiesOnTheGpu, SpecsAndShells) {
  run({"specs", "shells"}, "cuda:0");
  check_file("specs");
  check_file("shells");
  check_shells();
  const Array tables = *read("specs").getArray("tables");
  ASSERT_EQ(tables.size(), 2u);
  const Object &layers = *tables[0].getAsObject(), &cases = *tables[1].getAsObject();
  EXPECT_EQ(layers.getString("title"), llvm::StringRef("shell_12, 8 > 8"));
  ASSERT_EQ(cases.getArray("rows")->size(), 1u);
  const Array& found = *(*cases.getArray("rows"))[0].getAsArray();
  // A machine that has much else to do may decide nothing in the time.
  EXPECT_EQ(*found[1].getAsInteger(), static_cast<int64_t>(layers.getArray("rows")->size()));
  for (const llvm::json::Value& row : *layers.getArray("rows")) {
    const Array& spec = *row.getAsArray();
    EXPECT_EQ(spec[0].getAsString(), llvm::StringRef("layer"));
    EXPECT_EQ(*spec[1].getAsInteger(), 256);
    EXPECT_EQ(*spec[2].getAsInteger(), 511);
    EXPECT_EQ(spec[3].getAsString(), llvm::StringRef("4 - 16"));
    EXPECT_GE(*spec[4].getAsNumber(), *spec[5].getAsNumber());
    EXPECT_GE(*spec[6].getAsNumber(), 0);
    EXPECT_EQ(*spec[6].getAsNumber() > 0, spec[7].getAsString() && spec[8].getAsString());
  }
}

TEST_F(StudiesOnTheGpu, TheIndex) {
  run({"index"}, "cuda:0");
  check_file("index");
  check_index();
}

TEST_F(StudiesOnTheGpu, AllRun) {
  run({"all"}, "cuda:0");
  for (const std::string& study : kStudies) check_file(study);
  EXPECT_EQ(values(read("breakdown"), 0, 0), 6u);
  EXPECT_THAT(out_, HasSubstr("+ tuned tiles (AT)"));
  EXPECT_THAT(out_, HasSubstr("gather: "));
}

}  // namespace
}  // namespace minuet::tool
