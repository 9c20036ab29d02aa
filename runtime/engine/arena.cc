#include "runtime/engine/arena.h"

#include <utility>

#include "runtime/engine/alignment.h"

namespace minuet {

llvm::Error check_block(const char* name, const void* memory, i64 bytes, i64 needed) {
  if (!memory) return make_error(StatusCode::InvalidArgument, "{0} is null", name);
  MINUET_TRY(check_alignment(memory, kVectorAlignment, name));
  if (bytes >= needed) return llvm::Error::success();
  return make_error(StatusCode::ResourceExhausted, "{0} has {1} bytes, but {2} are needed", name, bytes,
                    needed);
}

llvm::Expected<DeviceMemory> allocate_grown(const std::shared_ptr<MemorySource>& source, i64 bytes,
                                            i64 slack) {
  llvm::Expected<DeviceMemory> memory = DeviceMemory::create(source, bytes + slack);
  if (memory) return memory;
  llvm::consumeError(memory.takeError());
  return DeviceMemory::create(source, bytes);
}

Arena::~Arena() { unpoison_parts(data_, bytes_); }

void Arena::use_workspace(void* workspace, i64 bytes) {
  unpoison_parts(data_, bytes_);
  memory_ = DeviceMemory();
  data_ = static_cast<char*>(workspace);
  bytes_ = workspace ? bytes : 0;
  callers_ = true;
}

llvm::Error Arena::reserve(i64 bytes, i64 slack) {
  if (bytes <= bytes_) return llvm::Error::success();
  if (callers_) {
    return make_error(StatusCode::ResourceExhausted,
                      "the caller's workspace has {0} bytes, but the execution needs {1}: give a larger one",
                      bytes_, bytes);
  }
  const bool growing = bytes_ > 0;
  // Releases the old block before the allocation, because memory may not suffice for both blocks.
  memory_ = DeviceMemory();
  data_ = nullptr;
  bytes_ = 0;
  MINUET_ASSIGN(memory_,
                growing ? allocate_grown(source_, bytes, slack) : DeviceMemory::create(source_, bytes));
  data_ = memory_.data();
  bytes_ = memory_.bytes();
  ++growths_;
  return llvm::Error::success();
}

DeviceMemory Arena::retire() {
  data_ = nullptr;
  bytes_ = 0;
  return std::move(memory_);
}

}  // namespace minuet
