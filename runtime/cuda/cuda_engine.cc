#include "runtime/cuda/cuda_engine.h"

#include <algorithm>

#include "runtime/engine/arena.h"

namespace minuet {

llvm::Expected<std::unique_ptr<Engine>> CudaEngine::create(std::shared_ptr<CudaDevice> device,
                                                           const EngineChoice& choice,
                                                           CudaEngineOptions options,
                                                           std::shared_ptr<SideStreams> side) {
  MINUET_ASSIGN(std::unique_ptr<Launcher> launcher, Launcher::create(std::move(device), std::move(side)));
  MINUET_ASSIGN(std::unique_ptr<MapStep> map, MapStep::create(*launcher, choice));
  return std::unique_ptr<Engine>(new CudaEngine(std::move(launcher), std::move(map), options));
}

llvm::Expected<i32> CudaEngine::add_op(const OpChoice& choice) {
  const ContextScope current = scope();
  auto found = llvm::find_if(families_, [&](const Family& known) { return known.family == &choice.kind(); });
  if (found == families_.end()) {
    MINUET_ASSIGN(const CudaFamily* const family, cuda_family(choice.kind()));
    families_.push_back({&choice.kind(), family->make(*launcher_, options_)});
    found = std::prev(families_.end());
  }
  MINUET_ASSIGN(const i32 number, found->ops->add(choice));
  ops_.push_back({found->ops.get(), number});
  return static_cast<i32>(ops_.size()) - 1;
}

llvm::Expected<i32> CudaEngine::add_permute_rows(const PermuteRowsSpec& spec) { return permute_.add(spec); }

i64 CudaEngine::workspace_bytes() const {
  ArenaLayout parts;
  for (const Family& family : families_) {
    // Under AddressSanitizer, an empty part would take memory too.
    if (const i64 bytes = family.ops->workspace_bytes(); bytes > 0) parts.add(bytes);
  }
  return parts.bytes();
}

llvm::Error CudaEngine::set_workspace(void* workspace) {
  const ContextScope current = scope();
  ArenaLayout parts;
  for (const Family& family : families_) {
    const i64 bytes = family.ops->workspace_bytes();
    const i64 offset = bytes > 0 ? parts.add(bytes) : parts.bytes();
    MINUET_TRY(family.ops->set_workspace(static_cast<char*>(workspace) + offset));
  }
  return llvm::Error::success();
}

/// Returns the scratch memory in bytes of the op family that needs most. The families use the scratch memory
/// one at a time, so they share it.
i64 CudaEngine::scratch_bytes() const {
  i64 bytes = 0;
  for (const Family& family : families_) bytes = std::max(bytes, family.ops->scratch_bytes());
  return bytes;
}

llvm::Expected<std::shared_ptr<DeferredReadback>> CudaEngine::start_readback(const i32* source, i64 words) {
  if (!readbacks_) readbacks_ = std::make_shared<ReadbackSlots>(launcher_->shared_device());
  ++launcher_->counters().copies;
  return readbacks_->fetch(launcher_->stream(), source, words);
}

llvm::Error CudaEngine::send(void* target, const void* host, i64 bytes) {
  MINUET_TRY(launcher_->send(target, host, bytes));
  return launcher_->record_copy();
}

llvm::Error CudaEngine::permute_rows(const PermuteRequest& request) {
  llvm::Error permuted = permute_.run(request);
  launcher_->end_step();
  return permuted;
}

llvm::Error CudaEngine::prepare_op(const OpRequest& request) {
  const Op& op = ops_[request.op];
  return op.ops->prepare(op.number, request);
}

llvm::Error CudaEngine::send_prepared() {
  for (const Family& family : families_) MINUET_TRY(family.ops->send_prepared());
  return llvm::Error::success();
}

llvm::Error CudaEngine::run_op(const OpRequest& request) {
  const Op& op = ops_[request.op];
  launcher_->profiler().set_op(request.op);
  llvm::Error ran = op.ops->run(op.number, request);
  launcher_->profiler().set_op(-1);
  launcher_->end_step();
  return ran;
}

llvm::Expected<PassTimes> CudaEngine::pass_times() {
  if (!launcher_->profiler().on()) {
    return make_error(StatusCode::FailedPrecondition, kProfilingOff);
  }
  const ContextScope current = scope();
  return launcher_->profiler().times();
}

}  // namespace minuet
