#include "tests/support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "llvm/Support/JSON.h"
#include "tests/support/contents.h"

namespace minuet {
namespace {

template <class T>
std::vector<T> values_of(const std::string& bytes, uint64_t begin, uint64_t end) {
  std::vector<T> values((end - begin) / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(T));
  return values;
}

void take_tensor(GoldenFile& file, const std::string& name, const llvm::json::Object& tensor,
                 const std::string& bytes, uint64_t data) {
  for (const llvm::json::Value& extent : *tensor.getArray("shape")) {
    file.shapes[name].push_back(*extent.getAsInteger());
  }
  const llvm::json::Array& range = *tensor.getArray("data_offsets");
  const uint64_t begin = data + *range[0].getAsInteger(), end = data + *range[1].getAsInteger();
  ASSERT_LE(end, bytes.size()) << file.path;
  const llvm::StringRef type = *tensor.getString("dtype");
  if (type == "I32") {
    file.integers[name] = values_of<int32_t>(bytes, begin, end);
  } else if (type == "F32") {
    file.floats[name] = values_of<float>(bytes, begin, end);
  } else if (type == "F64") {
    file.doubles[name] = values_of<double>(bytes, begin, end);
  } else {
    FAIL() << file.path << ": " << name << " is of type " << type.str();
  }
}

}  // namespace

std::string shared_folder() {
  const char* folder = std::getenv("MINUET_SHARED");
  return folder != nullptr && *folder != 0 ? folder : MINUET_SHARED_DEFAULT;
}

bool have_golden() { return std::filesystem::exists(shared_folder() + "/golden/sub_k3.safetensors"); }

GoldenFile read_golden(const std::string& name) {
  GoldenFile file;
  file.path = shared_folder() + "/golden/" + name + ".safetensors";
  const std::string bytes = contents(file.path);
  if (bytes.size() < 8) {
    ADD_FAILURE() << "cannot read " << file.path;
    return file;
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  llvm::Expected<llvm::json::Value> header =
      llvm::json::parse(llvm::StringRef(bytes).substr(8, header_bytes));
  if (!header) {
    ADD_FAILURE() << file.path << ": " << llvm::toString(header.takeError());
    return file;
  }
  for (const auto& entry : *header->getAsObject()) {
    const std::string key = llvm::StringRef(entry.first).str();
    if (key != "__metadata__") {
      take_tensor(file, key, *entry.second.getAsObject(), bytes, 8 + header_bytes);
      continue;
    }
    for (const auto& item : *entry.second.getAsObject()) {
      file.metadata[llvm::StringRef(item.first).str()] = item.second.getAsString()->str();
    }
  }
  return file;
}

std::vector<int32_t> GoldenFile::list(const std::string& key) const {
  std::vector<int32_t> values;
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(metadata.at(key));
  if (!parsed) {
    ADD_FAILURE() << path << ": " << key << ": " << llvm::toString(parsed.takeError());
    return values;
  }
  for (const llvm::json::Value& value : *parsed->getAsArray()) {
    values.push_back(static_cast<int32_t>(*value.getAsInteger()));
  }
  return values;
}

oracle::Axes GoldenFile::axes(const std::string& key) const {
  oracle::Axes axes{1, 1, 1, 1};
  const std::vector<int32_t> values = list(key);
  for (size_t a = 0; a < values.size() && a < axes.size(); ++a) axes[a] = values[a];
  return axes;
}

std::vector<std::string> golden_layers() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(shared_folder() + "/golden")) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".safetensors" && name.rfind("network_", 0) != 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string why_not_built(const GoldenFile& file) {
  const auto value = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  static const std::set<std::string> kinds{"convolution", "transposed",   "generative_transposed",
                                           "max_pool",    "average_pool", "sum_pool",
                                           "inverse"};
  const std::string kind = value("kind"), rule = value("output_rule"), kernel = value("kernel");
  if (!kinds.count(kind) || (!rule.empty() && rule != "reached") || (!kernel.empty() && kernel != "custom")) {
    ADD_FAILURE() << file.path << ": no test knows the kind '" << kind << "', output rule '" << rule
                  << "', kernel '" << kernel << "'";
    return "unknown";
  }
  return "";
}

}  // namespace minuet
