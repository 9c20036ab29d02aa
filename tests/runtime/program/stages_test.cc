// The stages of programs whose layers make levels in each run, without a device.
#include "runtime/program/stages.h"

#include <gmock/gmock.h>

#include "runtime/network/network_program.h"

namespace minuet {
namespace {

using testing::ElementsAre;

Program program_of(const std::string& layers, const std::string& outputs) {
  const NetworkDescription network =
      llvm::cantFail(parse_network(R"({"name": "n", "ndim": 3, "in_channels": 4, "outputs": [)" + outputs +
                                   R"(], "layers": [)" + layers + "]}"));
  return llvm::cantFail(
      build_program(network, DType::F32, [](const std::string&, i32) -> llvm::Expected<i32> { return 0; }));
}

TEST(Stages, AProgramWithoutMadeLevelsHasOne) {
  const Program program = program_of(
      R"({"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "output": "y"})", R"("y")");
  EXPECT_FALSE(has_stages(program));
  EXPECT_THAT(stage_numbers(program), ElementsAre(0, 0));
}

/// Levels: 0 the cloud, 1 the kept rows, 2 below them, 3 rows that are kept of level 2.
TEST(Stages, FollowTheirRoots) {
  const Program program = program_of(
      R"({"op": "linear", "name": "s", "out_channels": 1, "output": "s"},
      {"op": "prune", "input": "input", "by": "s", "output": "k"},
      {"op": "prune", "input": "s", "by": "s", "output": "ks"},
      {"op": "max_pool", "name": "p", "input": "k", "kernel_size": 2, "stride": 2},
      {"op": "linear", "name": "t", "out_channels": 1, "output": "t"},
      {"op": "prune", "input": "t", "by": "t", "top_k": 2, "output": "last"},
      {"op": "relu", "input": "last", "output": "y"})",
      R"("ks", "y")");
  ASSERT_TRUE(has_stages(program));
  EXPECT_THAT(stage_numbers(program), ElementsAre(0, 1, 1, 2));
  const std::vector<ProgramStage> stages = stages_of(program);
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_THAT(stages[0].layers, ElementsAre(0));
  EXPECT_THAT(stages[0].leading, ElementsAre());
  EXPECT_THAT(stages[0].inputs, ElementsAre(0));
  // The features and the scores go to the next stage.
  EXPECT_EQ(stages[0].outputs.size(), 2u);
  EXPECT_THAT(stages[1].levels, ElementsAre(1, 2));
  EXPECT_THAT(stages[1].leading, ElementsAre(1, 2));
  EXPECT_THAT(stages[1].layers, ElementsAre(3, 4));
  EXPECT_THAT(stages[1].program.levels[1].parent, 0);
  EXPECT_FALSE(stages[1].program.levels[0].is_made_in_run());
  EXPECT_THAT(stages[1].outputs, ElementsAre(-1, 0));
  EXPECT_THAT(stages[2].leading, ElementsAre(5));
  EXPECT_THAT(stages[2].outputs, ElementsAre(1));
}

/// The points come last, because layers give features back to them.
TEST(Stages, ThePointsComeLast) {
  const Program program = program_of(
      R"({"op": "voxelize", "voxel_size": [1, 1, 1]}, {"op": "linear", "name": "a", "out_channels": 8},
      {"op": "devoxelize"}, {"op": "linear", "name": "b", "out_channels": 2, "output": "y"})",
      R"("y")");
  EXPECT_TRUE(program.takes_points());
  EXPECT_THAT(program.input_names, ElementsAre("input", "batch", "count"));
  EXPECT_THAT(stage_numbers(program), ElementsAre(1, 0));
  const std::vector<ProgramStage> stages = stages_of(program);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_THAT(stages[0].leading, ElementsAre(0));
  EXPECT_THAT(stages[0].inputs, ElementsAre(-1));
  EXPECT_THAT(stages[1].leading, ElementsAre(2));
  EXPECT_TRUE(stages[1].program.levels[0].holds_points);
  EXPECT_THAT(stages[1].outputs, ElementsAre(0));
}

}  // namespace
}  // namespace minuet
