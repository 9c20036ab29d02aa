#include "codegen/compile/nvrtc_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "codegen/base/elf.h"
#include "codegen/base/own_image.h"
#include "codegen/base/sha256.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/FileSystem.h"

namespace minuet {
namespace {

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool exists(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

/// Returns the subfolders of `parent` whose names start with `prefix`. The greatest name, which is the newest
/// version, comes first.
std::vector<std::string> subfolders(const std::string& parent, llvm::StringRef prefix) {
  std::vector<std::string> names;
  if (DIR* folder = ::opendir(parent.c_str())) {
    while (const dirent* entry = ::readdir(folder)) {
      const llvm::StringRef name = entry->d_name;
      if (name.take_front(prefix.size()) == prefix) names.push_back(parent + "/" + name.str());
    }
    ::closedir(folder);
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

/// Adds each libnvrtc that exists in `folder` to `candidates`.
void add_folder(const std::string& folder, std::vector<std::string>& candidates) {
  for (const char* soname : kSonames) {
    const std::string path = folder + "/" + soname;
    if (exists(path)) candidates.push_back(path);
  }
}

void add_toolkits(const NvrtcPlaces& places, std::vector<std::string>& folders) {
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = places.environment(variable);
    if (!root.empty()) roots.push_back(root);
  }
  roots.push_back("/usr/local/cuda");
  for (std::string& root : subfolders("/usr/local", "cuda-1")) roots.push_back(std::move(root));
  roots.push_back("/opt/cuda");
  for (const std::string& root : roots) {
    for (const char* lib : {"/lib64", "/lib", "/targets/x86_64-linux/lib"}) folders.push_back(root + lib);
  }
}

/// Adds the folders of pip wheels. The wheel of NVRTC 13 installs into site-packages/nvidia/cu13/lib, and
/// that of NVRTC 12 into site-packages/nvidia/cuda_nvrtc/lib.
void add_wheels(const NvrtcPlaces& places, std::vector<std::string>& folders) {
  std::vector<std::string> sites;
  // Virtual environments come first, then the folders where pip installs for one user and for all users.
  const std::string home = places.environment("HOME");
  const std::string roots[] = {places.environment("VIRTUAL_ENV"), places.environment("CONDA_PREFIX"),
                               home.empty() ? "" : home + "/.local", "/usr/local", "/usr"};
  for (const std::string& root : roots) {
    if (root.empty()) continue;
    for (const std::string& python : subfolders(root + "/lib", "python3")) {
      sites.push_back(python + "/site-packages");
      sites.push_back(python + "/dist-packages");
    }
  }
  // If this library is itself installed as a wheel, it is in site-packages/minuet or below. A build folder
  // has the wheels of tools/setup in the same place.
  if (!places.own_folder.empty()) {
    sites.push_back(places.own_folder + "/..");
    sites.push_back(places.own_folder + "/../..");
  }
  for (const std::string& site : sites) {
    for (const char* folder : {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"})
      folders.push_back(site + folder);
  }
}

/// Returns the path under which the loader knows an open library.
std::string loaded_path(void* handle, const std::string& name) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0') return name;
  std::string path = real_path(map->l_name);
  return path.empty() ? map->l_name : path;
}

/// Identifies a library in memory. read_loaded() sets the id.
struct Loaded {
  const link_map* map = nullptr;
  std::string id;
};

int read_loaded(dl_phdr_info* info, std::size_t, void* into) {
  Loaded& loaded = *static_cast<Loaded*>(into);
  if (info->dlpi_addr != loaded.map->l_addr || llvm::StringRef(info->dlpi_name) != loaded.map->l_name)
    return 0;
  const llvm::ArrayRef<ElfW(Phdr)> segments(info->dlpi_phdr, info->dlpi_phnum);
  const auto bytes = [&](const ElfW(Phdr) & segment) {
    return llvm::StringRef(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  };
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type == PT_NOTE && loaded.id.empty()) loaded.id = find_build_id(bytes(segment));
  }
  if (!loaded.id.empty()) return 1;
  // If there is no build id, the id is a digest of the read-only segments, which the loader does not change.
  // They have about a hundred megabytes and are read in place.
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0) loaded.id += sha256_hex(bytes(segment));
  }
  loaded.id = sha256_hex(loaded.id);
  return 1;
}

void* open_library(const std::string& name) { return ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); }

std::string last_loader_error() {
  const char* const error = ::dlerror();
  return error != nullptr ? error : "unknown error";
}

}  // namespace

std::vector<std::string> nvrtc_candidates(const NvrtcPlaces& places) {
  std::vector<std::string> candidates;
  for (const std::string& named : {places.library, places.environment("MINUET_NVRTC")}) {
    if (named.empty()) continue;
    if (llvm::sys::fs::is_directory(named)) add_folder(named, candidates);
    if (candidates.empty()) candidates.push_back(named);
    return candidates;
  }
  std::vector<std::string> folders;
  add_toolkits(places, folders);
  add_wheels(places, folders);
  // NVRTC 13 in any folder comes before NVRTC 12 in any folder.
  for (const char* soname : kSonames) {
    candidates.emplace_back(soname);
    for (const std::string& folder : folders) {
      const std::string path = folder + "/" + soname;
      if (exists(path)) candidates.push_back(path);
    }
  }
  candidates.insert(candidates.end(), places.others.begin(), places.others.end());
  return candidates;
}

NvrtcPlaces this_process(llvm::StringRef library, const std::vector<std::string>& others) {
  NvrtcPlaces places;
  places.others = others;
  places.library = library.str();
  places.environment = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  places.own_folder = own_folder();
  return places;
}

void* NvrtcLibrary::symbol(const char* name) const { return ::dlsym(handle, name); }

std::string NvrtcLibrary::build_id() const {
  Loaded loaded;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &loaded.map) != 0) return {};
  ::dl_iterate_phdr(&read_loaded, &loaded);
  return loaded.id;
}

std::optional<NvrtcLibrary> open_nvrtc_library(const std::string& candidate, std::string& tried) {
  if (void* const handle = open_library(candidate)) {
    return NvrtcLibrary{handle, loaded_path(handle, candidate)};
  }
  tried += "\n  " + last_loader_error();
  return std::nullopt;
}

std::vector<std::string> loaded_nvrtcs() {
  std::vector<std::string> paths;
  for (const char* soname : kSonames) {
    void* const handle = ::dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    paths.push_back(loaded_path(handle, soname));
    ::dlclose(handle);  // The library stays loaded through the handle that first loaded it.
  }
  return paths;
}

llvm::Error nvrtc_not_found(const NvrtcPlaces& places, const std::string& tried) {
  const std::string variable = places.environment("MINUET_NVRTC");
  const std::string where = !places.library.empty() ? " at '" + places.library + "'"
                            : !variable.empty()     ? " at '" + variable + "', which MINUET_NVRTC names"
                                                    : "";
  return llvm::make_error<StatusError>(
      StatusCode::Unavailable,
      "kernels cannot be compiled, because no suitable libnvrtc was found" + where +
          ": install CUDA 13, or run 'pip install nvidia-cuda-nvrtc', or name the library with MINUET_NVRTC",
      "tried:" + tried);
}

llvm::Expected<NvrtcLibrary> open_builtins(const NvrtcLibrary& library, llvm::StringRef version) {
  const std::string name = ("libnvrtc-builtins.so." + version).str();
  // The library libnvrtc has no RUNPATH, so it does not find the builtins beside it if it is opened by its
  // path.
  const std::string beside = folder_of(library.path) + "/" + name;
  for (const std::string& candidate : {beside, name}) {
    if (void* const handle = open_library(candidate))
      return NvrtcLibrary{handle, loaded_path(handle, candidate)};
  }
  return make_error(
      StatusCode::Unavailable,
      "{0} was found, but {1} is neither beside it nor on the loader's path: put it there, or name a "
      "whole toolkit with MINUET_NVRTC",
      library.path, name);
}

}  // namespace minuet
