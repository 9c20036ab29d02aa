#include "codegen/base/parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include "codegen/base/cpu_count.h"
#include "codegen/base/thread_pool.h"

namespace minuet {

llvm::Error in_parallel(i64 count, llvm::function_ref<llvm::Error(i64)> work) {
  std::mutex mutex;
  llvm::Error error = llvm::Error::success();
  i64 failed = count;
  std::exception_ptr thrown;
  const i64 cores = cpu_count();
  ThreadPool(static_cast<i32>(std::clamp<i64>(count, 1, cores))).run(count, [&](i64 i, i32) {
    try {
      llvm::Error found = work(i);
      if (!found) return;
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < failed) std::swap(error, found), failed = i;
      llvm::consumeError(std::move(found));
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      thrown = std::current_exception();
    }
  });
  if (!thrown) return error;
  llvm::consumeError(std::move(error));
  std::rethrow_exception(thrown);
}

}  // namespace minuet
