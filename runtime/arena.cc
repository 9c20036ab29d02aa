#include "runtime/arena.h"

#include <utility>

namespace minuet {

Arena::Arena(std::shared_ptr<Device> device, void* workspace, i64 bytes)
    : device_(std::move(device)),
      data_(static_cast<char*>(workspace)),
      bytes_(workspace ? bytes : 0),
      callers_(workspace != nullptr) {}

llvm::Expected<bool> Arena::reserve(i64 bytes) {
  if (bytes <= bytes_) return false;
  if (callers_) {
    return make_error(StatusCode::ResourceExhausted,
                      "the caller's workspace has {0} bytes, but this cloud needs {1}: give a larger one",
                      bytes_, bytes);
  }
  memory_ = DeviceMemory();  // released first: both together may not fit
  data_ = nullptr;
  bytes_ = 0;
  MINUET_ASSIGN(memory_, DeviceMemory::create(device_, bytes));
  data_ = memory_.data();
  bytes_ = bytes;
  ++growths_;
  return true;
}

}  // namespace minuet
