#include "codegen/base/file_kind.h"

#include <set>

#include "codegen/base/json_text.h"
#include "codegen/base/text_input.h"
#include "llvm/Support/Endian.h"

namespace minuet {
namespace {

constexpr std::size_t kStartBytes = 4096;
constexpr std::uint64_t kLongestTensorHeader = 100u << 20;  // the limit of the safetensors format
constexpr std::size_t kMostShardNames = 3;

constexpr const char* kUnpack = "unpack it first";
constexpr const char* kSaveTensors = "save its tensors as safetensors";

struct Magic {
  llvm::StringLiteral start;
  FileKind kind;
  bool is_certain;
  const char* is;
  const char* advice;
};

constexpr Magic kMagics[] = {
    {"version https://git-lfs.github.com/spec/", FileKind::LfsPointer, true,
     "a Git LFS pointer, which only stands for the file", "fetch the file itself with `git lfs pull`"},
    {"version https://hawser.github.com/spec/", FileKind::LfsPointer, true,
     "a Git LFS pointer, which only stands for the file", "fetch the file itself with `git lfs pull`"},
    {"\x89HDF\r\n\x1a\n", FileKind::Hdf5, true, "an HDF5 file", ""},
    {"\x93NUMPY", FileKind::NumpyArray, true, "a NumPy array", ""},
    {"GGUF", FileKind::Gguf, false, "a GGUF file", ""},
    {"LASF", FileKind::Las, false, "a LAS or LAZ cloud",
     "convert it to PLY, for example with `pdal translate`"},
    {"ply\n", FileKind::Ply, false, "a PLY file", ""},
    {"ply\r", FileKind::Ply, false, "a PLY file", ""},
    {"# .PCD", FileKind::Pcd, true, "a PCD file", ""},
    {"\x80\x02\x8a\x0al\xfc\x9c"
     "F\xf9 j\xa8P\x19.",  // the number that torch.save wrote first
     FileKind::Pickle, true, "a PyTorch checkpoint", kSaveTensors},
    {"\x1f\x8b\x08", FileKind::Compressed, false, "compressed by gzip", kUnpack},
    {"BZh", FileKind::Compressed, false, "compressed by bzip2", kUnpack},
    {"\xfd"
     "7zXZ",
     FileKind::Compressed, false, "compressed by xz", kUnpack},
    {"\x28\xb5\x2f\xfd", FileKind::Compressed, false, "compressed by zstd", kUnpack},
    {"\xff\xfe", FileKind::Utf16, false, "text in UTF-16", "save it as UTF-8"},
    {"\xfe\xff", FileKind::Utf16, false, "text in UTF-16", "save it as UTF-8"},
};

bool begins_with(llvm::StringRef bytes, llvm::StringRef start) {
  return bytes.take_front(start.size()) == start;
}

/// The length of a header of sane size, and the brace that the header begins with.
bool is_safetensors(llvm::StringRef bytes) {
  return bytes.size() > 8 && llvm::support::endian::read64le(bytes.data()) <= kLongestTensorHeader &&
         bytes[8] == '{';
}

/// Protocols 2 to 5, and an operation that pickles of lists, dictionaries and objects begin with.
bool is_pickle(llvm::StringRef bytes) {
  return bytes.size() >= 3 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 &&
         llvm::StringRef("}](cX\x8a\x8c\x95").contains(bytes[2]);
}

/// Field 1, the version, and then field 2, the producer's name, or 7, the graph.
bool is_onnx(llvm::StringRef bytes) {
  return bytes.size() > 3 && bytes[0] == '\x08' && bytes[1] < 32 &&
         (bytes[2] == '\x12' || bytes[2] == '\x3a');
}

bool is_web_page(llvm::StringRef text) {
  for (const llvm::StringRef start : {"<!doctype html", "<html", "<head", "<?xml"}) {
    if (text.take_front(start.size()).lower() == start) return true;
  }
  return false;
}

/// The files that an index names, in order and without repeats; none where it is cut off.
std::set<std::string> shards_of(llvm::StringRef index) {
  std::set<std::string> names;
  llvm::Expected<llvm::json::Value> value = parse_json(index);
  if (!value) {
    llvm::consumeError(value.takeError());
    return names;
  }
  const llvm::json::Object* const root = value->getAsObject();
  const llvm::json::Object* const map = root ? root->getObject("weight_map") : nullptr;
  if (!map) return names;
  for (const auto& entry : *map) {
    if (const auto name = entry.second.getAsString()) names.insert(name->str());
  }
  return names;
}

KnownFile shard_index(llvm::StringRef text) {
  const std::set<std::string> names = shards_of(text);
  std::string list;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (shown++ == kMostShardNames) break;
    list += (list.empty() ? "" : ", ") + name;
  }
  if (names.size() > kMostShardNames) {
    list += llvm::formatv(" and {0} more", names.size() - kMostShardNames).str();
  }
  return {FileKind::ShardIndex, true, "the index of a checkpoint in parts",
          "name the part that has the network's tensors" + (list.empty() ? "" : " (" + list + ")") +
              ", or join the parts into one file"};
}

std::optional<KnownFile> identify_text(llvm::StringRef bytes) {
  const llvm::StringRef text = without_byte_order_mark(bytes).ltrim();
  if (is_web_page(text)) {
    return KnownFile{FileKind::WebPage, true, "a web page (HTML or XML)",
                     "a download often leaves one in place of the file, so download the file itself again"};
  }
  if (!begins_with(text, "{") && !begins_with(text, "[")) return std::nullopt;
  if (text.take_front(kStartBytes).contains("\"weight_map\"") ||
      text.take_back(kStartBytes).contains("\"weight_map\""))
    return shard_index(text);
  return KnownFile{FileKind::Json, false, "JSON text", ""};
}

std::optional<KnownFile> identify_archive(llvm::StringRef bytes) {
  if (!begins_with(bytes, "PK\x03\x04") && !begins_with(bytes, "PK\x05\x06")) return std::nullopt;
  if (bytes.take_front(kStartBytes).contains("data.pkl"))
    return KnownFile{FileKind::TorchZip, true, "a PyTorch checkpoint", kSaveTensors};
  return KnownFile{FileKind::Zip, false, "a zip archive, as numpy.savez writes", kUnpack};
}

}  // namespace

[[gnu::cold]] std::optional<KnownFile> identify_file(llvm::StringRef bytes) {
  if (is_safetensors(bytes)) return KnownFile{FileKind::Safetensors, true, "a safetensors file", ""};
  const llvm::StringRef text = without_byte_order_mark(bytes);
  for (const Magic& magic : kMagics) {
    if (begins_with(text, magic.start))
      return KnownFile{magic.kind, magic.is_certain, magic.is, magic.advice};
  }
  if (std::optional<KnownFile> archive = identify_archive(bytes)) return archive;
  if (is_pickle(bytes)) return KnownFile{FileKind::Pickle, false, "a PyTorch checkpoint", kSaveTensors};
  if (is_onnx(bytes)) return KnownFile{FileKind::Onnx, false, "an ONNX model", ""};
  return identify_text(bytes);
}

[[gnu::cold]] std::string other_file_text(const KnownFile& file, llvm::StringRef wanted) {
  return ("it is " + file.is + ", not " + wanted + (file.advice.empty() ? "" : ": ") + file.advice).str();
}

[[gnu::cold]] llvm::Error refuse_other_file(llvm::StringRef bytes, FileKind wanted,
                                            llvm::StringRef wanted_name) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || file->kind == wanted) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0}", other_file_text(*file, wanted_name));
}

}  // namespace minuet
