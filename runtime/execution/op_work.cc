#include "runtime/execution/op_work.h"

namespace minuet {
namespace {

class ViewWork final : public OpWork {
 public:
  explicit ViewWork(const OpWorkContext& context) : program_(context.program), views_(context.views) {}

  llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                           llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const override {
    NeighbourRequest request{common, {}};
    const i32 map = program_.layers[layer].map;
    if (map >= 0) request.view = views_.view(map, common.transposed, candidate.form);
    return enqueue(request);
  }

 private:
  const Program& program_;
  const MapViews& views_;
};

}  // namespace

std::unique_ptr<OpWork> make_view_work(const OpWorkContext& context) {
  return std::make_unique<ViewWork>(context);
}

llvm::Expected<std::unique_ptr<OpWork>> make_op_work(const OpFamily& family, const OpWorkContext& context) {
  const WorkOfFamily* const known = find_family(works_of_families(), family);
  if (known) return known->make(context);
  return make_error(StatusCode::Internal, "the library has no code that runs ops of kind {0}", family.name);
}

}  // namespace minuet
