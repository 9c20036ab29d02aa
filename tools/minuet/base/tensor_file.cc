#include "tools/minuet/base/tensor_file.h"

#include <algorithm>

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"

namespace minuet::tool {

llvm::Expected<std::vector<TensorFile>> parse_tensor_files(const char* flag,
                                                           const std::vector<std::string>& values) {
  std::vector<TensorFile> files;
  for (const std::string& value : values) {
    const auto [name, path] = llvm::StringRef(value).split('=');
    if (name.empty() || path.empty()) {
      return bad_input("{0} '{1}' is not of the form NAME=FILE.npy: write a name and a file, with = between",
                       flag, value);
    }
    if (extension_of(path) != ".npy") return bad_input("{0}: '{1}' must end in .npy", flag, path);
    const auto is_same = [&, name = name](const TensorFile& file) { return name == file.name; };
    if (std::any_of(files.begin(), files.end(), is_same)) {
      return bad_input("{0} names '{1}' twice: give one file for it", flag, name);
    }
    files.push_back({name.str(), path.str()});
  }
  return files;
}

}  // namespace minuet::tool
