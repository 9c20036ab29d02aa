// A plan's executions on pyramids: used again, and dropped with their pyramid.
#include "runtime/execution/run_pool.h"

#include <gtest/gtest.h>

#include "codegen/choose/ops/pooling.h"

namespace minuet {
namespace {

std::shared_ptr<const LoadedPlan> pooling_plan() {
  PoolingProblem problem;
  problem.dtype = DType::F32;
  problem.channels = 4;
  problem.kernel_size = {3, 3, 3, 1};
  const std::shared_ptr<const Plan> plan = llvm::cantFail(Plan::create(problem, GivenParameters()));
  return llvm::cantFail(LoadedPlan::create(plan, llvm::cantFail(CompiledPlan::create(*plan, "")), {},
                                           llvm::cantFail(open_cpu_device(1)), {}, nullptr));
}

std::shared_ptr<const Pyramid> small_pyramid() {
  PyramidDescription description;
  description.levels.resize(1);
  description.levels[0].capacity = 8;
  description.maps = {{0, 0, {3, 3, 3, 1}, {1, 1, 1, 1}}};
  description.needs = {{0, false, &PoolingProblem::kKind}};
  return llvm::cantFail(Pyramid::create(description));
}

TEST(RunPool, UsesAnExecutionAgain) {
  RunPool pool;
  const std::shared_ptr<const LoadedPlan> plan = pooling_plan();
  const std::shared_ptr<const Pyramid> pyramid = small_pyramid();
  llvm::cantFail(pool.prepare(plan, {pyramid}, nullptr));
  const long held = pyramid.use_count();
  llvm::cantFail(pool.prepare(plan, {pyramid}, nullptr));
  EXPECT_EQ(pyramid.use_count(), held);
  llvm::cantFail(pool.prepare(plan, {pyramid, 0, PyramidUse::kInput}, nullptr));
  EXPECT_GT(pyramid.use_count(), held) << "another order of rows takes another execution";
}

TEST(RunPool, DropsTheExecutionsOfOnePyramid) {
  RunPool pool;
  const std::shared_ptr<const LoadedPlan> plan = pooling_plan();
  std::shared_ptr<const Pyramid> first = small_pyramid(), second = small_pyramid();
  const std::weak_ptr<const Pyramid> of_first = first, of_second = second;
  for (const auto& pyramid : {first, second}) llvm::cantFail(pool.prepare(plan, {pyramid}, nullptr));
  pool.drop(*first);
  first.reset(), second.reset();
  EXPECT_TRUE(of_first.expired());
  EXPECT_FALSE(of_second.expired()) << "the pool keeps what was not dropped";
}

}  // namespace
}  // namespace minuet
