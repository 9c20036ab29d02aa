#include "runtime/engine/callers_allocator.h"

#include <cstdint>
#include <utility>

#include "codegen/base/own_thread.h"
#include "runtime/engine/arena.h"

namespace minuet {

llvm::Expected<void*> CallersAllocator::allocate(i64 bytes, void* stream) {
  // The entry of the map is made first, because the block would be lost if there were no memory for it.
  std::map<void*, i64> made{{nullptr, bytes}};
  void* memory = nullptr;
  {
    const HostSignals signals;
    memory = functions_.allocate(bytes, stream, functions_.user);
  }
  if (!memory) {
    return make_error(StatusCode::ResourceExhausted, "the caller's allocator has no memory for {0} bytes",
                      bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(memory) % kArenaAlignment != 0) {
    give_back(memory, bytes, stream);
    return make_error(StatusCode::InvalidArgument,
                      "the caller's allocator gave memory for {0} bytes that does not begin on a multiple of "
                      "{1} bytes, which all memory must do",
                      bytes, kArenaAlignment);
  }
  auto entry = made.extract(made.begin());
  entry.key() = memory;
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_.insert(std::move(entry));
  return memory;
}

void CallersAllocator::give_back(void* memory, i64 bytes, void* stream) const {
  unpoison_parts(memory, bytes);
  const HostSignals signals;
  functions_.free(memory, bytes, stream, functions_.user);
}

void CallersAllocator::release(void* memory, void* stream) {
  i64 bytes = 0;
  {
    // The entry goes first, because another thread may get the same block again as soon as it is free.
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = bytes_.find(memory);
    if (found == bytes_.end()) return;
    bytes = found->second;
    bytes_.erase(found);
  }
  give_back(memory, bytes, stream);
}

bool CallersAllocator::has_blocks() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !bytes_.empty();
}

void CallersAllocator::release_all() {
  std::map<void*, i64> blocks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks.swap(bytes_);
  }
  for (const auto& [memory, bytes] : blocks) give_back(memory, bytes, nullptr);
}

}  // namespace minuet
