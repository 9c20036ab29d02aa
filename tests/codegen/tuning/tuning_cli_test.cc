// `minuet tune` from outside.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "llvm/Support/JSON.h"
#include "tests/codegen/choose/examples.h"
#include "tests/tools/folder.h"

namespace minuet {
namespace {

using testing::HasSubstr;

std::string expect_done(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tune");
  const tool::Finished finished = tool::minuet(arguments);
  EXPECT_EQ(finished.code, 0) << finished.err;
  return finished.out;
}

void expect_refused(std::vector<std::string> arguments, const std::string& reason) {
  arguments.insert(arguments.begin(), "tune");
  const tool::Finished finished = tool::minuet(arguments);
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, HasSubstr(reason));
}

TEST(TuningCli, R35_ListAndInspect) {
  const TemporaryFolder folder;
  EXPECT_EQ(expect_done({"list", "--directory", folder.path()}),
            "no tuning results; minuet tune run makes them\n");
  llvm::cantFail(store_in(folder.path()).publish(example_entry()));
  const std::string text = expect_done({"list", "--directory", folder.path()});
  EXPECT_THAT(text, HasSubstr("gpu NVIDIA H200"));
  EXPECT_THAT(text,
              HasSubstr("dtype fp16, channels 64, volume 27, log2_rows 16: tile=16, 12000 ns, best of 3"));
  const std::string json = expect_done({"list", "--json", "--directory", folder.path()});
  EXPECT_EQ(llvm::cantFail(read_tuning(json)), std::vector<TuningEntry>{example_entry()});
  const std::string prefix = bucket_hash(example_entry().bucket).substr(0, 6);
  EXPECT_EQ(expect_done({"inspect", prefix, "--directory", folder.path()}), print_entry(example_entry()));
  expect_refused({"inspect", "nothing", "--directory", folder.path()}, "starts with 'nothing'");
  expect_refused({"list", "--directory", folder / "missing"}, "is not a folder");
  expect_refused({}, "subcommand");
}

// ---- run and show ---------------------------------------------------------------------------------------

constexpr const char* kNetwork =
    R"({"name": "small", "ndim": 3, "in_channels": 4, "channels": [4], "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"}]})";

/// A wall of 900 points, and the network.
struct TuneFiles {
  TuneFiles() {
    std::ofstream(network) << kNetwork;
    std::ofstream file(cloud, std::ios::binary);
    for (int i = 0; i < 900; ++i) {
      const float point[4] = {0.1f * static_cast<float>(i % 30), 0.1f * static_cast<float>(i / 30), 0.5f, 1};
      file.write(reinterpret_cast<const char*>(point), sizeof(point));
    }
  }
  const TemporaryFolder folder;
  const std::string network = folder / "network.json", cloud = folder / "cloud.bin", cache = folder / "cache";
};

TEST(TuningCli, MeasuresOnTheCpuAndShowsWhatWasChosen) {
  const TuneFiles files;
  const std::vector<std::string> of_network{"--network", files.network, "--device",
                                            "cpu",       "--cache",     files.cache};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), of_network.begin(), of_network.end());
    return arguments;
  };
  EXPECT_THAT(expect_done(with({"show"})), HasSubstr("no results for this network"));
  const tool::Finished untuned = tool::minuet(
      {"run", files.cloud, "--tuned", "--network", files.network, "--device", "cpu", "--cache", files.cache});
  EXPECT_EQ(untuned.code, 2);
  EXPECT_THAT(untuned.err, HasSubstr("there are no results for this network"));

  EXPECT_THAT(expect_done(with({"run", files.cloud, "--budget", "0.001"})),
              HasSubstr("no time was left to measure a candidate"));
  EXPECT_THAT(expect_done(with({"show"})), HasSubstr("no results for this network"));
  const std::string measured = expect_done(with({"run", files.cloud, "--repeat", "3", "--budget", "60"}));
  EXPECT_THAT(measured, HasSubstr("small in fp32 on "));
  EXPECT_THAT(measured, HasSubstr("3 candidates measured in "));
  EXPECT_THAT(measured, HasSubstr(" of 3 comparisons\n"));
  EXPECT_THAT(measured, HasSubstr(" candidates measured in "));
  const std::string shown = expect_done(with({"show"}));
  for (const char* layer : {"stem ", "down ", "up "}) EXPECT_THAT(shown, HasSubstr(layer));
  EXPECT_THAT(shown, HasSubstr("dataflow=1"));
  EXPECT_THAT(expect_done({"list", "--cache", files.cache}), HasSubstr("kind transposed"));
  const tool::Finished tuned = tool::minuet(
      {"run", files.cloud, "--tuned", "--network", files.network, "--device", "cpu", "--cache", files.cache});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
}

TEST(TuningCli, WithoutACloudOnGeneratedOnes) {
  const TuneFiles files;
  const tool::Finished finished = tool::minuet({"tune", "run", "--network", files.network, "--device", "cpu",
                                                "--cache", files.cache, "--budget", "0.001"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("small in fp32 on "));
  EXPECT_THAT(finished.out, HasSubstr("no time was left to measure a candidate"));
}

TEST(TuningCli, RefusesWhatItCannotMeasure) {
  const TuneFiles files;
  expect_refused({"run", files.folder / "none.bin"}, "none.bin");
  expect_refused({"run", files.cloud, "--budget", "0"}, "--budget");
  expect_refused({"run", files.cloud, "--repeat", "2"}, "--repeat");
  expect_refused({"run", files.cloud, "--network", "nothing", "--device", "cpu"}, "'nothing'");
  expect_refused({"run", files.cloud, "--network", files.network, "--device", "cpu", "--only-training"},
                 "leave --only-training out");
}

}  // namespace
}  // namespace minuet
