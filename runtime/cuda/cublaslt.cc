#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "codegen/base/own_image.h"
#include "runtime/engine/device.h"

namespace minuet {
namespace {

constexpr const char* kLibrary = "libcublasLt.so.13";
constexpr std::size_t kLeastVersion = 130000;

/// Returns glob patterns of package folders of Python environments, in which a wheel may have installed the
/// library.
std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* root = std::getenv(variable);
    if (root && *root == '/') folders.push_back(std::string(root) + "/lib/python3*/site-packages");
  }
  if (const char* home = std::getenv("HOME"); home && *home == '/') {
    folders.push_back(std::string(home) + "/.local/lib/python3*/site-packages");
  }
  folders.insert(folders.end(),
                 {"/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages",
                  "/usr/lib/python3/dist-packages", "/opt/*/.venv/lib/python3*/site-packages",
                  "/opt/*/lib/python3*/site-packages"});
  // If this library is itself installed as a wheel, it is in site-packages/minuet/lib.
  folders.push_back(own_folder() + "/../..");
  return folders;
}

void add_matches(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t matches = {};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    paths.insert(paths.end(), matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  globfree(&matches);
}

llvm::Error fill_table(void* handle, CublasLt& library) {
  struct Row {
    const char* name;
    void** target;
  };
#define MINUET_CUBLASLT_ROW(name) {#name, reinterpret_cast<void**>(&library.name)},
  const Row rows[] = {
#include "runtime/cuda/cublaslt.inc"
  };
  for (const Row& row : rows) {
    *row.target = dlsym(handle, row.name);
    if (!*row.target) return make_error(StatusCode::Unavailable, "it has no function {0}", row.name);
  }
  const std::size_t version = library.cublasLtGetVersion();
  library.version = std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
                    std::to_string(version % 100);
  if (version >= kLeastVersion) return llvm::Error::success();
  return make_error(StatusCode::Unavailable, "it has version {0}; 13.0 or newer is needed", library.version);
}

llvm::Error open_library(const std::string& named, CublasLt& library) {
  std::string tried;
  for (const std::string& path : cublaslt_candidates(named)) {
    tried += (tried.empty() ? "" : "; ") + path + ": ";
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* reason = dlerror();
      tried += reason ? reason : "not loaded";
      continue;
    }
    llvm::Error error = fill_table(handle, library);
    if (!error) {
      library.path = path;
      return error;
    }
    tried += take_status(std::move(error)).message();
    dlclose(handle);
  }
  return make_error(
      StatusCode::Unavailable,
      "there is no usable cuBLASLt 13: install CUDA 13 or 'pip install nvidia-cublas', or name the "
      "file in MINUET_CUBLASLT (tried {0})",
      tried);
}

}  // namespace

std::vector<std::string> cublaslt_candidates(const std::string& named) {
  if (!named.empty()) return {named};
  if (const char* variable = std::getenv("MINUET_CUBLASLT"); variable && *variable) return {variable};
  std::vector<std::string> paths{kLibrary};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (root && *root == '/') add_matches(std::string(root) + "/lib*/" + kLibrary, paths);
  }
  for (const char* root : {"/usr/local/cuda", "/usr/local/cuda-13*", "/opt/cuda"}) {
    add_matches(std::string(root) + "/lib*/" + kLibrary, paths);
    add_matches(std::string(root) + "/targets/x86_64-linux/lib/" + kLibrary, paths);
  }
  for (const std::string& folder : package_folders()) {
    add_matches(folder + "/nvidia/cu13/lib/" + kLibrary, paths);
    add_matches(folder + "/nvidia/cublas/lib/" + kLibrary, paths);
  }
  return paths;
}

llvm::Expected<const CublasLt*> CublasLt::get(const std::string& named) {
  static std::mutex mutex;
  // The map's keys are the requested file names. The map is never destroyed, because the users of its
  // libraries may be destroyed in any order at exit.
  static auto& libraries = *new std::map<std::string, CublasLt>;
  const std::lock_guard<std::mutex> lock(mutex);
  CublasLt& library = libraries[named];
  if (library.path.empty()) MINUET_TRY(open_library(named, library));
  return &library;
}

llvm::Expected<std::string> cublaslt_path() {
  MINUET_ASSIGN(const CublasLt* library, CublasLt::get());
  return library->path;
}

llvm::Error cublaslt_error(const CublasLt& library, cublasStatus_t status, llvm::StringRef attempt) {
  const char* name = library.cublasLtGetStatusName(status);
  const StatusCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? StatusCode::ResourceExhausted : StatusCode::Internal;
  return make_error(code, "{0}: {1}", attempt, name ? name : "unknown cuBLASLt status");
}

}  // namespace minuet
