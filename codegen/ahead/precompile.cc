#include "codegen/ahead/precompile.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <set>

#include "codegen/base/arch.h"
#include "codegen/base/file_lock.h"
#include "codegen/base/file_system.h"
#include "codegen/base/trace.h"
#include "codegen/bundle/bundle.h"
#include "codegen/bundle/bundle_writer.h"
#include "codegen/compile/diagnostics.h"
#include "codegen/compile/helper_compiler.h"
#include "codegen/source/keys.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

namespace minuet {
namespace {

// Limits the wait for the lock of a bundle. Another writer holds the lock for milliseconds, or for about a
// second with very many kernels.
constexpr auto kLockBound = std::chrono::seconds(10);

/// Holds what one output bundle will contain: the kernels of the existing file, if there is one, and new
/// kernels.
struct BundleContents {
  std::map<std::string, Entry> entries;  ///< Maps request keys (keys.h) to compiled kernels.
  std::string tuning;
};

/// Reads the bundle at `path`. Leaves out damaged kernels, which are then compiled again. Returns an error
/// for a file that is not a trusted bundle, so that it is not overwritten.
llvm::Expected<BundleContents> read_shelf(const std::string& path, const TrustPolicy& trust) {
  llvm::Expected<std::unique_ptr<Bundle>> bundle = Bundle::open(path, &trust);
  if (!bundle)
    return annotate(bundle.takeError(), "an existing file cannot be used as the output bundle; move it away");
  BundleContents shelf;
  if (llvm::Expected<std::string> tuning = (*bundle)->tuning()) {
    shelf.tuning = std::move(*tuning);
  } else {
    llvm::consumeError(tuning.takeError());
  }
  for (std::size_t i = 0; i < (*bundle)->size(); ++i) {
    llvm::Expected<Entry> entry = (*bundle)->read(i);
    if (entry) {
      shelf.entries.insert_or_assign(entry->request_key, std::move(*entry));
    } else {
      llvm::consumeError(entry.takeError());
    }
  }
  return shelf;
}

llvm::Error make_folder(const std::string& path) {
  // The umask restricts the mode all_all.
  std::error_code error =
      llvm::sys::fs::create_directories(path, /*IgnoreExisting=*/true, llvm::sys::fs::all_all);
  // create_directories() does not fail if the path is a file.
  if (!error && !llvm::sys::fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) error = llvm::sys::fs::access(path, llvm::sys::fs::AccessMode::Write);
  if (!error) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "the folder '{0}' cannot be made or written to: {1}", path,
                    system_text(error));
}

class Precompilation {
 public:
  Precompilation(KernelCache& cache, const PrecompileOptions& options) : cache_(cache), options_(options) {}

  llvm::Expected<PrecompileResult> run(const std::vector<KernelRequest>& requests) {
    const auto start = std::chrono::steady_clock::now();
    MINUET_TRY(take(requests));
    MINUET_ASSIGN(compiler_, cache_.compiler_info({options_.cancel}));
    MINUET_TRY(check_archs());
    if (!options_.output.empty()) MINUET_TRY(open_shelves());
    std::vector<KernelRequest> missing;
    for (const KernelRequest& request : requests_) {
      if (const std::string needed = missing_arch(request.source, request.arch); !needed.empty()) {
        fail(request, {StatusCode::Unimplemented, "it needs " + needed});
      } else if (!find(request)) {
        missing.push_back(request);
      }
    }
    make(missing);
    const std::int64_t done = result_.compiled + result_.found + result_.failed;
    result_.cancelled = is_cancelled(options_.cancel) && done < result_.kernels;
    if (!options_.output.empty()) write_shelves();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  llvm::Error take(const std::vector<KernelRequest>& requests);
  llvm::Error check_archs() const;
  llvm::Error open_shelves();
  bool find(const KernelRequest& request);
  void make(const std::vector<KernelRequest>& missing);
  llvm::Expected<FileLock> lock_bundle(const std::string& name) const;
  void finish(const KernelRequest& request, Entry entry, BinaryOrigin origin);
  void fail(const KernelRequest& request, StatusError failure);
  void write_shelves();
  llvm::Expected<BundleReport> write_shelf(const std::string& arch, BundleContents& shelf);
  /// Stores the failure in the result if it is the first one.
  void keep_failure(StatusError failure) {
    if (!result_.first_failure) result_.first_failure.emplace(std::move(failure));
  }

  KernelCache& cache_;
  const PrecompileOptions& options_;
  NvrtcInfo compiler_;
  std::vector<KernelRequest> requests_;            ///< Contains no request twice.
  std::map<std::string, BundleContents> shelves_;  ///< Maps architectures to the contents of their bundles.
  PrecompileResult result_;
};

/// Stores the requests without repeats. Requests may be repeated because networks share kernels and because a
/// list of requests that was recorded in a file may contain a kernel twice.
llvm::Error Precompilation::take(const std::vector<KernelRequest>& requests) {
  std::set<std::string> seen;
  for (const KernelRequest& request : requests) {
    if (capability(request.arch) == 0) {
      return not_an_arch(request.arch);
    }
    if (!seen.insert(request.key).second) continue;
    requests_.push_back(request);
    shelves_[request.arch];
  }
  result_.kernels = static_cast<std::int64_t>(requests_.size());
  return llvm::Error::success();
}

/// Returns an error if there is an architecture for which no kernel can be compiled. Without this check,
/// every kernel for it would fail with the same error.
llvm::Error Precompilation::check_archs() const {
  // Maps each architecture to those that its kernels need, such as "sm_90 or newer". The text "" stands for a
  // kernel that can be compiled.
  std::map<std::string, std::set<std::string>> needs;
  for (const KernelRequest& request : requests_) {
    needs[request.arch].insert(missing_arch(request.source, request.arch));
  }
  for (const auto& [arch, missing] : needs) {
    if (!missing.count("")) {
      return make_error(
          StatusCode::Unimplemented,
          "no kernel can be compiled for {0}; name an architecture that the kernels support: {1}", arch,
          llvm::join(missing, ", or "));
    }
    if (is_known_arch(compiler_.archs, arch)) continue;
    const std::string compiler = "NVRTC " + compiler_.version + " (" + compiler_.path + ")";
    return llvm::make_error<StatusError>(unknown_arch(compiler, arch, compiler_.archs));
  }
  return llvm::Error::success();
}

llvm::Error Precompilation::open_shelves() {
  const Trace::Span span(cache_.trace(), "bundle", "read bundles");
  MINUET_TRY(make_folder(options_.output));
  for (auto& [arch, shelf] : shelves_) {
    const std::string path = bundle_path(options_.output, arch);
    if (!llvm::sys::fs::exists(path)) continue;
    MINUET_ASSIGN(shelf, read_shelf(path, cache_.policy()));
  }
  return llvm::Error::success();
}

bool Precompilation::find(const KernelRequest& request) {
  const BundleContents& shelf = shelves_[request.arch];
  const auto there = shelf.entries.find(request.key);
  if (there == shelf.entries.end() || there->second.binary.compiler_id != compiler_.id) return false;
  cache_.count(there->second.binary, BinaryOrigin::Bundle);
  finish(request, there->second, BinaryOrigin::Bundle);
  return true;
}

/// Converts an exception that was thrown while kernels were compiled to an error, so that the bundles are
/// still written.
StatusError failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return {StatusCode::ResourceExhausted, "the host ran out of memory"};
  } catch (const std::exception& error) {
    return {StatusCode::Internal, std::string("an unexpected exception: ") + error.what()};
  }
}

void Precompilation::make(const std::vector<KernelRequest>& missing) {
  if (missing.empty()) return;
  HelperPoolOptions options;
  options.jobs = options_.jobs;
  options.cancel = options_.cancel;
  std::mutex mutex;
  const HelperPoolReport pool =
      for_each_with_helper(missing, options, [&](std::size_t index, const CompileControl& control) {
        const KernelRequest& request = missing[index];
        BinaryOrigin origin = BinaryOrigin::Compiled;
        llvm::Expected<KernelCache::BinaryPointer> binary = cache_.get_exactly(request, control, origin);
        const std::lock_guard<std::mutex> lock(mutex);
        if (!binary) {
          fail(request, take_status(binary.takeError()));
        } else {
          const std::string build = build_key(request.key, compiler_.id);
          finish(request, {request.key, build, request.source.name_expression, **binary}, origin);
        }
        return true;
      });
  if (pool.thrown) keep_failure(failure_of(pool.thrown));
}

void Precompilation::finish(const KernelRequest& request, Entry entry, BinaryOrigin origin) {
  ++(origin == BinaryOrigin::Compiled ? result_.compiled : result_.found);
  result_.bytes += static_cast<std::int64_t>(entry.binary.cubin.size());
  if (options_.step) {
    const std::size_t done = static_cast<std::size_t>(result_.compiled + result_.found + result_.failed);
    options_.step({done, requests_.size(), request, &entry.binary, origin, nullptr});
  }
  if (origin != BinaryOrigin::Bundle)
    shelves_[request.arch].entries.insert_or_assign(entry.request_key, std::move(entry));
}

void Precompilation::fail(const KernelRequest& request, StatusError failure) {
  // A kernel that was cancelled does not count as failed.
  if (failure.code() == StatusCode::Cancelled) return;
  ++result_.failed;
  if (options_.step) {
    const std::size_t done = static_cast<std::size_t>(result_.compiled + result_.found + result_.failed);
    options_.step({done, requests_.size(), request, nullptr, BinaryOrigin::Compiled, &failure});
  }
  const std::string who = request.source.display_name + " for " + request.arch;
  if (failure.message().find(who) == std::string::npos) failure.annotate(who);
  keep_failure(std::move(failure));
}

void Precompilation::write_shelves() {
  const Trace::Span span(cache_.trace(), "bundle", "write bundles");
  for (auto& [arch, shelf] : shelves_) {
    if (shelf.entries.empty()) continue;
    llvm::Expected<BundleReport> report = write_shelf(arch, shelf);
    if (report) {
      result_.bundles.push_back(std::move(*report));
    } else {
      keep_failure(take_status(report.takeError()));
    }
  }
}

/// Locks a file beside the bundle. The caller removes that file after the write. A lock on the bundle itself
/// would be lost when the new bundle is renamed to it.
llvm::Expected<FileLock> Precompilation::lock_bundle(const std::string& name) const {
  FileSystem& system = cache_.file_system();
  const auto open_folder = [&]() -> llvm::Expected<FileHandle> {
    FileHandle folder(
        system, system.open_at(AT_FDCWD, options_.output.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
    if (folder.good()) return folder;
    return make_system_error(options_.output);
  };
  FileLock lock = take_file_lock(system, open_folder, name, 0666, kLockBound, options_.cancel);
  // If the file system has no locks, the atomic rename still leaves a complete bundle, which is that of the
  // process that wrote last.
  if (lock.held() || lock.without_locks()) return lock;
  if (lock.outcome() == FileLock::Outcome::Unavailable) {
    return make_error(StatusCode::FailedPrecondition,
                      "the bundle is not written, because the lock {0}/{1} cannot be taken: {2}",
                      options_.output, name, errno_text(lock.error()));
  }
  const bool is_late = lock.outcome() == FileLock::Outcome::TimedOut;
  return make_error(is_late ? StatusCode::Unavailable : StatusCode::Cancelled,
                    "another process is writing the bundle and holds the lock {0}/{1}: try again later",
                    options_.output, name);
}

/// Writes a bundle while it holds the lock, and keeps the kernels that another process has added to the file
/// meanwhile.
llvm::Expected<BundleReport> Precompilation::write_shelf(const std::string& arch, BundleContents& shelf) {
  const std::string path = bundle_path(options_.output, arch), lock_name = ".minuet-" + arch + ".lock";
  llvm::Expected<FileLock> lock = lock_bundle(lock_name);
  if (!lock) return annotate(lock.takeError(), path);
  struct RemoveFile {
    const std::string path;
    ~RemoveFile() { ::unlink(path.c_str()); }
  } const afterwards{lock->held() ? options_.output + "/" + lock_name : ""};
  if (llvm::sys::fs::exists(path)) {
    MINUET_ASSIGN(BundleContents others, read_shelf(path, cache_.policy()));
    shelf.entries.merge(others.entries);  // If both maps have a key, merge() keeps this process's kernel.
    shelf.tuning = std::move(others.tuning);
  }
  const auto tuned = options_.tuning.find(arch);
  // If kernels are missing, the tuning results are left out, because they may choose one of those kernels.
  const bool whole = !result_.cancelled && result_.failed == 0;
  if (whole && tuned != options_.tuning.end()) {
    llvm::Expected<std::string> joined = join_tuning(shelf.tuning, tuned->second);
    if (!joined) return annotate(joined.takeError(), path);
    shelf.tuning = std::move(*joined);
  }
  std::vector<Entry> entries;
  for (auto& [key, entry] : shelf.entries) entries.push_back(std::move(entry));
  MINUET_ASSIGN(const WrittenBundle written, write_bundle(path, arch, entries, shelf.tuning));
  return BundleReport{arch, path, written.sha256, static_cast<std::int64_t>(written.bytes),
                      static_cast<std::int64_t>(entries.size())};
}

}  // namespace

std::string bundle_path(const std::string& output, llvm::StringRef arch) {
  return output + "/minuet-" + arch.str() + ".bundle";
}

llvm::Expected<PrecompileResult> precompile(KernelCache& cache, const std::vector<KernelRequest>& requests,
                                            const PrecompileOptions& options) {
  return Precompilation(cache, options).run(requests);
}

}  // namespace minuet
