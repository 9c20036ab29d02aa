#include "runtime/execution/op_work.h"

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/ops/pooling.h"
#include "runtime/execution/ops/convolution.h"

namespace minuet {
namespace {

/// The work of a family whose kernels read a view of the map, and nothing else.
class ViewWork final : public OpWork {
 public:
  explicit ViewWork(const OpWorkContext& context) : program_(context.program), views_(context.views) {}

  llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                           llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const override {
    const i32 map = program_.layers[layer].map;
    return enqueue(NeighbourRequest{common, views_.view(map, common.transposed, candidate.form)});
  }

 private:
  const Program& program_;
  const MapViews& views_;
};

std::unique_ptr<OpWork> make_view_work(const OpWorkContext& context) {
  return std::make_unique<ViewWork>(context);
}

/// One line for each family.
struct WorkOfFamily {
  const OpFamily& family;
  std::unique_ptr<OpWork> (*make)(const OpWorkContext& context);
};
const WorkOfFamily kFamilies[] = {
    {GmasChoice::kKind, make_gmas_work},
    {FusedChoice::kKind, make_view_work},
    {PoolChoice::kKind, make_view_work},
};

}  // namespace

llvm::Expected<std::unique_ptr<OpWork>> make_op_work(const OpFamily& family, const OpWorkContext& context) {
  for (const WorkOfFamily& known : kFamilies) {
    if (&known.family == &family) return known.make(context);
  }
  return make_error(StatusCode::Internal, "executions have no work for the family {0}", family.name);
}

}  // namespace minuet
