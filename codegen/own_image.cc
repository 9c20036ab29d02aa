#include "codegen/own_image.h"

#include <dlfcn.h>

#include <cstdlib>

namespace minuet {

std::string own_image() {
  Dl_info self;
  if (::dladdr(reinterpret_cast<void*>(&own_image), &self) != 0 && self.dli_fname != nullptr) {
    std::string name = self.dli_fname;
    if (name.find('/') != std::string::npos) return name;
  }
  // A program found through PATH, and our helper, are known to the loader by their bare names.
  return real_path("/proc/self/exe");
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
