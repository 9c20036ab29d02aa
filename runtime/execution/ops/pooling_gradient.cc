#include "runtime/execution/ops/pooling_gradient.h"

#include <algorithm>

#include "codegen/choose/ops/pooling_gradient.h"
#include "runtime/engine/ops/pooling_gradient.h"

namespace minuet {
namespace {

class PoolingGradientWork final : public OpWork {
 public:
  explicit PoolingGradientWork(const OpWorkContext& context)
      : program_(context.program), views_(context.views) {}

  void begin(i64) override { most_rows_ = 0; }
  llvm::Error add(const OpUse& use) override {
    bound(use.layer, use.input_rows, 0);
    return llvm::Error::success();
  }
  void bound(i32 layer, i64 rows, double /*neighbours*/) override {
    const auto& problem = program_.layers[layer].problem.get<PoolingGradientProblem>();
    if (choose_pooling_gradient(problem).counts()) most_rows_ = std::max(most_rows_, rows);
  }
  void place_buffers(Placement& parts) override { counts_ = parts.take<u32>(most_rows_); }

  llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                           llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const override {
    PoolingGradientRequest request{{common, {}}};
    request.view = views_.view(program_.layers[layer].map, common.transposed, candidate.form);
    if (candidate.choice.get<PoolingGradientChoice>().counts()) request.counts = counts_;
    return enqueue(request);
  }

 private:
  const Program& program_;
  const MapViews& views_;
  i64 most_rows_ = 0;      // Is the largest number of rows that an op counts.
  u32* counts_ = nullptr;  // Has most_rows_ words. The ops run one after the other, so they share them.
};

}  // namespace

std::unique_ptr<OpWork> make_pooling_gradient_work(const OpWorkContext& context) {
  return std::make_unique<PoolingGradientWork>(context);
}

}  // namespace minuet
