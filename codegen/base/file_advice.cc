#include "codegen/base/file_kind.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

constexpr std::size_t kMostPartNames = 3;

bool is_cloud(WantedFile wanted) {
  return wanted == WantedFile::PointText || wanted == WantedFile::PointBytes;
}

bool is_text(WantedFile wanted) { return wanted == WantedFile::PointText || wanted == WantedFile::Json; }

std::string advice_on_parts(const std::vector<std::string>& parts) {
  std::string list;
  for (std::size_t i = 0; i < parts.size() && i < kMostPartNames; ++i)
    list += (i == 0 ? "" : ", ") + parts[i];
  if (parts.size() > kMostPartNames)
    list += llvm::formatv(" and {0} more", parts.size() - kMostPartNames).str();
  return "name the part that has the network's tensors" + (list.empty() ? "" : " (" + list + ")") +
         ", or join the parts into one file";
}

/// Returns advice for a file of tensors in a format that the reader does not support, or an empty string.
std::string advice_on_tensors(WantedFile wanted) {
  if (wanted == WantedFile::Weights) return "write its tensors with safetensors' save_file";
  return is_cloud(wanted) || wanted == WantedFile::Array ? "save the array itself with numpy.save" : "";
}

std::string advice_on(const KnownFile& file, WantedFile wanted) {
  switch (file.kind) {
    case FileKind::LfsPointer:
      return "fetch the file itself with `git lfs pull`";
    case FileKind::WebPage:
      return "a download often leaves one in place of the file, so download the file itself again";
    case FileKind::ShardIndex:
      return wanted == WantedFile::Weights ? advice_on_parts(file.parts) : "";
    case FileKind::Compressed:
      return "unpack it first";
    case FileKind::Zip:
      return wanted == WantedFile::Weights ? advice_on_tensors(wanted) : "unpack it first";
    case FileKind::NumpyArray:
      return is_cloud(wanted) ? "end its name in .npy" : advice_on_tensors(wanted);
    case FileKind::TorchZip:
    case FileKind::Pickle:
    case FileKind::Hdf5:
    case FileKind::Gguf:
    case FileKind::Onnx:
      return advice_on_tensors(wanted);
    case FileKind::Ply:
      return is_cloud(wanted) ? "end its name in .ply" : "";
    case FileKind::Pcd:
      return is_cloud(wanted) ? "end its name in .pcd" : "";
    case FileKind::Las:
      return is_cloud(wanted) ? "convert it to PLY, for example with `pdal translate`" : "";
    case FileKind::Utf16:
      return is_text(wanted) ? "save it as UTF-8" : "";
    default:
      return "";
  }
}

}  // namespace

[[gnu::cold]] std::string other_file_text(const KnownFile& file, WantedFile wanted,
                                          llvm::StringRef wanted_name) {
  const std::string advice = advice_on(file, wanted);
  return ("it is " + file.is + ", not " + wanted_name + (advice.empty() ? "" : ": ") + advice).str();
}

[[gnu::cold]] llvm::Error refuse_other_than_json(llvm::StringRef bytes, llvm::StringRef wanted_name) {
  const std::optional<KnownFile> file = identify_file(bytes);
  if (!file || file->kind == FileKind::Json) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0}",
                    other_file_text(*file, WantedFile::Json, wanted_name));
}

}  // namespace minuet
