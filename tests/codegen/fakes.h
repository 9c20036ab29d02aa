// Stand-ins for tests of the cache: a compiler that makes small valid cubins, folders that go away.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/base/cache_directory.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/compile/compiler.h"
#include "tests/support/contents.h"

namespace minuet {

/// What a synthetic cubin says about its one kernel.
struct CubinSketch {
  std::string kernel = "kernel";
  int sm = 90;
  int registers = 32;
  int frame_bytes = 0;
  int shared_bytes = 0;
  std::vector<int> max_threads = {128, 1, 1};
  int params_bytes = 80;
  std::string code = "instructions";
};

/// A 64-bit ELF file with the sections that read_cubin reads.
std::string make_cubin(const CubinSketch& sketch);

/// The PTX of one kernel that does nothing, with `code` in a comment.
std::string make_ptx(const std::string& target = "sm_90", const std::string& kernel = "kernel",
                     const std::string& code = "instructions");

/// Compiles anything at once into a synthetic cubin (or PTX) that quotes the source; counts its compiles.
class FakeCompiler : public Compiler {
 public:
  llvm::Expected<NvrtcInfo> info(const CompileControl& control = {}) override;
  llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) override;

  std::string id_ = "fake 1";                              // empty: there is none
  std::function<llvm::Error(const KernelSource&)> before;  // may fail or throw
  std::atomic<int> compiles{0};
};

KernelSource make_source(const std::string& name, const std::string& text = "text");

/// A folder of its own for one test, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Environment make_environment(std::map<std::string, std::string> variables);

/// Collects warnings of a cache. Thread-safe.
class Warnings {
 public:
  std::function<void(const std::string&)> sink();
  std::vector<std::string> all() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

/// A cache in `directory` over `system`, without this process's environment.
std::unique_ptr<KernelCache> make_cache(const std::string& directory, std::shared_ptr<Compiler> compiler,
                                        Warnings* warnings = nullptr,
                                        FileSystem& system = real_file_system());

/// Every regular file below `folder`.
std::vector<std::string> files_below(const std::string& folder);
void write_text(const std::string& path, const std::string& text);
/// The bytes of a library whose build-id is `id`, with another one.
std::string with_another_build_id(std::string library, const std::string& id);

}  // namespace minuet
