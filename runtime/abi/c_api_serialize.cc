// Implements the functions of the C ABI for plans as bytes.
#include "runtime/abi/c_api_internal.h"
#include "runtime/engine/overlap.h"
#include "runtime/plan/serialized_plan.h"

namespace minuet {
namespace {

llvm::Expected<std::vector<std::string>> read_archs(const char* const* given, int32_t count) {
  MINUET_TRY(check_list(given, "archs", count, "arch_count"));
  std::vector<std::string> archs;
  for (int32_t i = 0; i < count; ++i) {
    MINUET_ASSIGN(std::string arch, read_arch(given[i], "archs[" + std::to_string(i) + "]"));
    archs.push_back(std::move(arch));
  }
  return archs;
}

/// Checks the memory that minuet_plan_serialize() writes.
llvm::Error check_targets(const void* buffer, std::size_t size, const std::size_t* needed) {
  MINUET_TRY(check_pointer(needed, "needed"));
  MINUET_TRY(check_buffer(buffer, size));
  if (buffer != nullptr &&
      overlap(memory_of(buffer, static_cast<i64>(size)), memory_of(needed, sizeof(*needed)))) {
    return overlap_error("buffer", "needed");
  }
  return llvm::Error::success();
}

/// Returns the plan as bytes. These are the ones that the last query has made, if it was for these
/// architectures.
llvm::Expected<std::string> serialized_bytes(minuet_plan& plan, const std::vector<std::string>& archs,
                                             uint32_t flags) {
  {
    const std::lock_guard<std::mutex> lock(plan.mutex);
    const bool is_same = plan.serialized_archs == archs && plan.serialized_flags == flags;
    if (is_same && !plan.serialized.empty()) return std::exchange(plan.serialized, {});
  }
  return serialize_plan(plan.store->plan(), plan.store->cache(), archs,
                        (flags & MINUET_SERIALIZE_WITHOUT_VALUES) == 0);
}

}  // namespace

llvm::Error check_buffer(const void* buffer, std::size_t size) {
  if (buffer != nullptr || size == 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "buffer is null, and size is {0}: give both, or null and 0",
                    size);
}

}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_plan_serialize(minuet_plan* plan, const char* const* archs, int32_t arch_count,
                                    uint32_t flags, void* buffer, size_t size, size_t* needed) {
  return guarded("minuet_plan_serialize", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(const std::vector<std::string> known, read_archs(archs, arch_count));
    if ((flags & ~uint32_t{MINUET_SERIALIZE_WITHOUT_VALUES}) != 0) {
      return make_error(StatusCode::InvalidArgument, "flags is {0}; it must be 0 or 1", flags);
    }
    MINUET_TRY(check_targets(buffer, size, needed));
    MINUET_ASSIGN(std::string bytes, serialized_bytes(*plan, known, flags));
    *needed = bytes.size();
    if (buffer != nullptr && size >= bytes.size()) {
      std::memcpy(buffer, bytes.data(), bytes.size());
      return llvm::Error::success();
    }
    const std::size_t count = bytes.size();
    {
      const std::lock_guard<std::mutex> lock(plan->mutex);
      plan->serialized_archs = known;
      plan->serialized_flags = flags;
      plan->serialized = std::move(bytes);
    }
    if (buffer == nullptr) return llvm::Error::success();
    return make_error(StatusCode::OutOfRange, "the plan takes {0} bytes, and buffer has {1}", count, size);
  });
}

minuet_status minuet_plan_deserialize(minuet_context* context, const void* bytes, size_t size,
                                      minuet_plan** plan) {
  return guarded("minuet_plan_deserialize", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(bytes, "bytes"));
    MINUET_TRY(check_pointer(plan, "plan"));
    const llvm::StringRef given(static_cast<const char*>(bytes), size);
    MINUET_ASSIGN(std::shared_ptr<const Plan> made, deserialize_plan(given, *context->context->cache()));
    *plan = make_plan(std::move(made), *context->context);
    return llvm::Error::success();
  });
}
}
