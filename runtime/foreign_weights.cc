#include "runtime/foreign_weights.h"

#include "llvm/Support/Endian.h"

namespace minuet {
namespace {

bool has_magic(llvm::StringRef text, llvm::StringRef start) { return text.take_front(start.size()) == start; }

/// A safetensors file begins with the length of its header, which the format limits to 100 MB.
bool has_header_length(llvm::StringRef bytes) {
  return bytes.size() >= 8 && llvm::support::endian::read64le(bytes.data()) <= (100u << 20);
}

/// torch.save writes a pickle, alone or, by default, in a zip archive with the tensors beside it.
bool is_torch(llvm::StringRef bytes) {
  if (has_magic(bytes, "PK\x03\x04")) return bytes.take_front(1 << 12).contains("data.pkl");
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

const char* other_format(llvm::StringRef bytes) {
  if (has_magic(bytes, "\x89HDF\r\n\x1a\n")) return "an HDF5 file";
  if (has_magic(bytes, "\x93NUMPY")) return "a NumPy array";
  if (has_magic(bytes, "PK\x03\x04")) return "a zip archive, as numpy.savez writes";
  if (has_magic(bytes, "GGUF")) return "a GGUF file";
  // ONNX: field 1, the version, then field 2, the producer's name, or 7, the graph.
  if (bytes.size() > 3 && bytes[0] == '\x08' && bytes[1] < 32 && (bytes[2] == '\x12' || bytes[2] == '\x3a'))
    return "an ONNX model";
  return nullptr;
}

}  // namespace

llvm::Error refuse_foreign_weights(llvm::StringRef bytes) {
  if (has_header_length(bytes)) return llvm::Error::success();
  if (is_torch(bytes)) {
    return make_error(
        StatusCode::InvalidArgument,
        "it is a PyTorch checkpoint, not a safetensors file; convert it in Python: "
        "safetensors.torch.save_file({{k: v.contiguous() for k, v in torch.load(\"in.pth\", "
        "map_location=\"cpu\").items()}, \"out.safetensors\"), of [\"state_dict\"] or [\"model\"] "
        "where the checkpoint has more than tensors in it");
  }
  if (const char* format = other_format(bytes)) {
    return make_error(StatusCode::InvalidArgument,
                      "it is {0}, not a safetensors file; write its tensors with safetensors' save_file",
                      format);
  }
  return llvm::Error::success();
}

}  // namespace minuet
