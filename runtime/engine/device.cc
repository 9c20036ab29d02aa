#include "runtime/engine/device.h"

#include <utility>

namespace minuet {

llvm::Expected<DeviceMemory> DeviceMemory::create(std::shared_ptr<MemorySource> source, i64 bytes) {
  DeviceMemory memory;
  // Allocates at least one byte, so that an empty block has an address too and callers need no special case.
  MINUET_ASSIGN(void* data, source->allocate(bytes > 0 ? bytes : 1));
  memory.source_ = std::move(source);
  memory.data_ = static_cast<char*>(data);
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(source_, other.source_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_) source_->release(data_);
}

}  // namespace minuet
