#include "tests/support/golden.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

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

const std::vector<std::string>& golden_layers() {
  static const std::vector<std::string> names{"average_pool_k3s2",
                                              "down_k113_s112",
                                              "down_k2s2",
                                              "down_k2s2_hole",
                                              "down_k3s2",
                                              "down_k3s3_d2",
                                              "generative_k2s2",
                                              "generative_k3s2",
                                              "given_outputs",
                                              "max_pool_k2s2",
                                              "sub_1d",
                                              "sub_2d",
                                              "sub_4d",
                                              "sub_batch_hole",
                                              "sub_depthwise",
                                              "sub_dilated",
                                              "sub_dilated_axis",
                                              "sub_even_k2",
                                              "sub_even_k4",
                                              "sub_grouped",
                                              "sub_k1",
                                              "sub_k3",
                                              "sub_k313",
                                              "sub_k5",
                                              "sub_one_point",
                                              "sub_ts4",
                                              "sum_pool_k3",
                                              "up_k2s2",
                                              "up_k3_s122",
                                              "up_k3s2"};
  return names;
}

}  // namespace minuet
