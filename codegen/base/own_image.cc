#include "codegen/base/own_image.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <cstdlib>

namespace minuet {

std::string own_image() {
  Dl_info self;
  void* found = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(&own_image), &self, &found, RTLD_DL_LINKMAP) != 0) {
    auto* const map = static_cast<link_map*>(found);
    const std::string name = map->l_name;
    // l_name may be relative to an earlier working directory, so only its file name is used. The folder from
    // dlinfo() is absolute, because the loader computed it when it opened the library.
    char folder[2 * PATH_MAX + 1];
    if (!name.empty() && ::dlinfo(map, RTLD_DI_ORIGIN, folder) == 0)
      return std::string(folder) + "/" + name.substr(name.rfind('/') + 1);
  }
  return real_path("/proc/self/exe");  // The link_map of the program itself has an empty name.
}

std::string own_folder() {
  const std::string image = own_image();
  return image.substr(0, image.rfind('/'));
}

std::string real_path(const char* path) {
  char* const resolved = ::realpath(path, nullptr);
  std::string text = resolved != nullptr ? resolved : "";
  std::free(resolved);
  return text;
}

}  // namespace minuet
