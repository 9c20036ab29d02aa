// `minuet run --replay`, `minuet bench --replay` and `minuet bench --training` from outside.
#include <gmock/gmock.h>

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

TEST(Cli, ReplaysAreInferencesInCapacityMode) {
  const Folder folder;
  const std::string report = folder.path("report.json"), bench = folder.path("bench.json");
  const Finished finished =
      minuet({"run", "--device", "cpu", "--channels", "4,4,6,8,10,8,6,4,5", "--synthetic", "room", "--points",
              "3000", "--voxel-size", "0.2", "--repeat", "2", "--replay", "--json", report});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("in capacity mode"));
  const llvm::json::Object ran = json_in(report);
  EXPECT_EQ(ran.getBoolean("replay"), true);
  EXPECT_GT(*ran.getNumber("total_ms"), 0);

  const Finished benched = minuet({"bench", "--network", "sparseresnet21d", "--cloud", "object_0.01",
                                   "--variants", "1", "--device", "cpu", "--replay", "--output", bench});
  EXPECT_EQ(benched.code, 0) << benched.err;
  const llvm::json::Object value = json_in(bench);
  const llvm::json::Object& cloud = *(*value.getArray("clouds"))[0].getAsObject();
  EXPECT_EQ(cloud.getInteger("did_not_fit"), int64_t{0});
  EXPECT_EQ(cloud.getArray("capacities")->size(), 5u);
  EXPECT_GT(*(*cloud.getArray("capacities"))[0].getAsInteger(),
            *cloud.getObject("voxels")->getInteger("max"));
  EXPECT_THAT(value.getString("method")->str(), HasSubstr("in capacity mode"));
}

TEST(Cli, BenchTimesStepsOfTraining) {
  const Folder folder;
  const std::string path = folder.path("training.json");
  const Finished benched =
      minuet({"bench", "--network", "sparseresnet21d", "--cloud", "object_0.01", "--variants", "1",
              "--device", "cpu", "--training", "--branches", "1", "--output", path});
  EXPECT_EQ(benched.code, 0) << benched.err;
  for (const char* word : {"object_0.01", "forward", "backward", "kept, MB"}) {
    EXPECT_THAT(benched.out, HasSubstr(word));
  }
  const llvm::json::Object value = json_in(path);
  EXPECT_THAT(value.getString("method")->str(),
              AllOf(HasSubstr("a whole step of training"), HasSubstr("one branch")));
  const llvm::json::Object& cloud = *(*value.getArray("clouds"))[0].getAsObject();
  for (const char* key : {"wall_ms", "maps_ms", "forward_ms", "backward_ms", "enqueue_ms"}) {
    EXPECT_GT(*cloud.getObject(key)->getNumber("median"), 0) << key;
  }
  for (const char* key :
       {"pyramid_bytes", "kept_bytes", "forward_workspace_bytes", "backward_workspace_bytes"}) {
    EXPECT_GT(*cloud.getInteger(key), 0) << key;
  }
  EXPECT_EQ(cloud.getArray("capacities")->size(), 5u);

  const Finished refused = minuet({"bench", "--network", "minkunet34c_points", "--cloud", "object_0.01",
                                   "--device", "cpu", "--training"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("makes its voxels itself"));
}

}  // namespace
}  // namespace minuet::tool
