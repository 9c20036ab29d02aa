#include "codegen/base/file_kind.h"

#include <algorithm>
#include <set>

#include "codegen/base/json_text.h"
#include "codegen/base/text_input.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Endian.h"

namespace minuet {
namespace {

constexpr std::size_t kStartBytes = 4096;
// The functions that recognize text look at no more than this number of bytes.
constexpr std::size_t kTextBytes = 64;
constexpr std::size_t kShownCharacters = 40;
constexpr std::uint64_t kLongestTensorHeader = 100u << 20;  // The safetensors format sets this limit.

struct Magic {
  llvm::StringLiteral start;
  FileKind kind;
  bool is_certain;
  const char* is;
};

constexpr const char* kPointer = "a Git LFS pointer";

constexpr Magic kMagics[] = {
    {"version https://git-lfs.github.com/spec/", FileKind::LfsPointer, true, kPointer},
    {"version https://hawser.github.com/spec/", FileKind::LfsPointer, true, kPointer},
    {"\x89HDF\r\n\x1a\n", FileKind::Hdf5, true, "an HDF5 file"},
    {"\x89PNG\r\n\x1a\n", FileKind::Picture, true, "a PNG picture"},
    {"%PDF-", FileKind::Document, true, "a PDF document"},
    {"\x93NUMPY", FileKind::NumpyArray, true, "a NumPy array"},
    {"GGUF", FileKind::Gguf, true, "a GGUF file"},
    {"LASF", FileKind::Las, true, "a LAS or LAZ cloud"},
    {"ASTM-E57", FileKind::Las, true, "an E57 cloud"},
    {"ply\n", FileKind::Ply, true, "a PLY file"},
    {"ply\r", FileKind::Ply, true, "a PLY file"},
    {"# .PCD", FileKind::Pcd, true, "a PCD file"},
    {"\x80\x02\x8a\x0al\xfc\x9c"
     "F\xf9 j\xa8P\x19.",  // torch.save wrote this magic number before it wrote zip files.
     FileKind::Pickle, true, "a PyTorch checkpoint"},
    {"\x1f\x8b\x08", FileKind::Compressed, true, "a file compressed by gzip"},
    {"\xfd"
     "7zXZ",
     FileKind::Compressed, true, "a file compressed by xz"},
    {"\x28\xb5\x2f\xfd", FileKind::Compressed, true, "a file compressed by zstd"},
};

bool begins_with(llvm::StringRef bytes, llvm::StringRef start) {
  return bytes.take_front(start.size()) == start;
}

/// Returns true if the bytes begin with a plausible length of a safetensors header and the header's opening
/// brace.
bool is_safetensors(llvm::StringRef bytes) {
  return bytes.size() > 8 && llvm::support::endian::read64le(bytes.data()) <= kLongestTensorHeader &&
         bytes[8] == '{';
}

/// Returns true if the bytes begin with a pickle of protocol 2 to 5 and with an opcode that can begin a list,
/// dictionary or object.
bool is_pickle(llvm::StringRef bytes) {
  return bytes.size() >= 3 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 &&
         llvm::StringRef("}](cX\x8a\x8c\x95").contains(bytes[2]);
}

/// Returns true if the pickle begins with a frame (protocols 4 and 5) whose length is below 1 TiB.
bool has_pickle_frame(llvm::StringRef bytes) {
  return bytes.size() >= 11 && bytes[2] == '\x95' &&
         llvm::support::endian::read64le(bytes.data() + 3) < std::uint64_t{1} << 40;
}

/// Returns true if the bytes begin like an ONNX model, that is, with protobuf field 1 (the version) and then
/// field 2 (the producer) or 7 (the graph).
bool is_onnx(llvm::StringRef bytes) {
  return bytes.size() > 3 && bytes[0] == '\x08' && bytes[1] < 32 &&
         (bytes[2] == '\x12' || bytes[2] == '\x3a');
}

/// Returns true if the first kTextBytes bytes are UTF-8 text without control characters other than white
/// space. The last character may be cut off.
bool is_text(llvm::StringRef bytes) {
  const llvm::StringRef start = without_byte_order_mark(bytes).take_front(kTextBytes);
  for (std::size_t i = 0; i < start.size();) {
    const auto* const character = reinterpret_cast<const llvm::UTF8*>(start.data()) + i;
    const std::size_t size = llvm::getNumBytesForUTF8(*character);
    if (size == 1 && !llvm::isPrint(start[i]) && !llvm::isSpace(start[i])) return false;
    if (i + size > start.size()) return i > 0;
    if (!llvm::isLegalUTF8Sequence(character, character + size)) return false;
    i += size;
  }
  return !start.empty();
}

bool is_bzip2(llvm::StringRef bytes) {
  return bytes.size() > 3 && begins_with(bytes, "BZh") && bytes[3] >= '1' && bytes[3] <= '9';
}

/// Returns true if the first kTextBytes bytes are UTF-16 text of ASCII characters only, in either byte order.
bool is_utf16_of_ascii(llvm::StringRef bytes) {
  constexpr std::size_t kFewest = 8;  // Fewer bytes than this may look like UTF-16 by chance.
  const llvm::StringRef start = bytes.take_front(kTextBytes);
  if (start.size() < kFewest) return false;
  const auto is_ascii = [&](std::size_t of_character) {
    for (std::size_t i = 0; i + 1 < start.size(); i += 2) {
      const char character = start[i + of_character];
      if (start[i + 1 - of_character] != '\0' || !(llvm::isPrint(character) || llvm::isSpace(character)))
        return false;
    }
    return true;
  };
  return is_ascii(0) || is_ascii(1);
}

/// Recognizes UTF-16 text, with or without a byte order mark.
std::optional<KnownFile> identify_utf16(llvm::StringRef bytes) {
  const bool has_mark = begins_with(bytes, "\xff\xfe") || begins_with(bytes, "\xfe\xff");
  const bool is_certain = is_utf16_of_ascii(has_mark ? bytes.drop_front(2) : bytes);
  if (!has_mark && !is_certain) return std::nullopt;
  return KnownFile{FileKind::Utf16, is_certain, "text in UTF-16", {}};
}

/// Returns true for HTML and XML. A page may begin with a comment or any tag, such as "<!--", "<meta
/// charset=...>" or "<Error>".
bool is_web_page(llvm::StringRef text) {
  for (const llvm::StringRef start : {"<!doctype html", "<html", "<head", "<?xml", "<!--"}) {
    if (text.take_front(start.size()).lower() == start) return true;
  }
  const std::string second = text.substr(1, 1).str();
  return begins_with(text, "<") && llvm::isAlpha(second[0]) && is_text(text);
}

/// Returns true if the text begins with a PCD header. Comments may precede the header.
bool is_pcd_header(llvm::StringRef text) {
  TextCursor cursor(text.take_front(kStartBytes));
  llvm::StringRef line = cursor.row();
  while (begins_with(line, "#")) line = cursor.row();
  const llvm::StringRef key = TextCursor(line).token();
  if (key != "VERSION" && key != "FIELDS" && key != "COLUMNS") return false;
  while (!line.empty() && TextCursor(line).token() != "DATA") line = cursor.row();
  return !line.empty();
}

/// Returns true if the text is the index of a sharded checkpoint, and stores the file names of its parts in
/// `names`, sorted and without repeats. Stores no names if the index is cut off.
bool read_shard_index(llvm::StringRef text, std::vector<std::string>& names) {
  if (!text.contains("\"weight_map\"")) return false;
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (!value) return llvm::consumeError(value.takeError()), true;
  const llvm::json::Object* const root = value->getAsObject();
  const llvm::json::Object* const map = root ? root->getObject("weight_map") : nullptr;
  if (!map) return false;
  std::set<std::string> sorted;
  for (const auto& entry : *map) {
    if (const auto name = entry.second.getAsString()) sorted.insert(name->str());
  }
  names.assign(sorted.begin(), sorted.end());
  return true;
}

/// Describes text of an unknown kind by its first line, such as "text that begins 'Entry not found'".
KnownFile plain_text(llvm::StringRef text) {
  llvm::StringRef line = TextCursor(text).row().trim();
  std::size_t shown = std::min(line.size(), kShownCharacters);
  while (shown < line.size() && shown > 0 && (line[shown] & '\xc0') == '\x80')
    --shown;  // The shown text must not end inside a UTF-8 character.
  return {FileKind::Text,
          true,
          ("text that begins '" + line.take_front(shown) + (shown < line.size() ? "...'" : "'")).str(),
          {}};
}

std::optional<KnownFile> identify_text(llvm::StringRef bytes) {
  const llvm::StringRef text = without_byte_order_mark(bytes).ltrim();
  if (is_web_page(text)) return KnownFile{FileKind::WebPage, true, "a web page (HTML or XML)", {}};
  if (begins_with(text, "{") || begins_with(text, "[")) {
    std::vector<std::string> parts;
    if (read_shard_index(text, parts))
      return KnownFile{FileKind::ShardIndex, true, "the index of a checkpoint in parts", std::move(parts)};
    return KnownFile{FileKind::Json, is_text(text), "JSON text", {}};
  }
  if (!is_text(text)) return std::nullopt;
  return is_pcd_header(text) ? KnownFile{FileKind::Pcd, true, "a PCD file", {}} : plain_text(text);
}

std::optional<KnownFile> identify_archive(llvm::StringRef bytes) {
  if (!begins_with(bytes, "PK\x03\x04") && !begins_with(bytes, "PK\x05\x06")) return std::nullopt;
  if (bytes.take_front(kStartBytes).contains("data.pkl"))
    return KnownFile{FileKind::TorchZip, true, "a PyTorch checkpoint", {}};
  return KnownFile{FileKind::Zip, true, "a zip archive, as numpy.savez writes", {}};
}

}  // namespace

[[gnu::cold]] std::optional<KnownFile> identify_file(llvm::StringRef bytes) {
  if (is_safetensors(bytes)) return KnownFile{FileKind::Safetensors, true, "a safetensors file", {}};
  const llvm::StringRef text = without_byte_order_mark(bytes);
  for (const Magic& magic : kMagics) {
    if (begins_with(text, magic.start)) return KnownFile{magic.kind, magic.is_certain, magic.is, {}};
  }
  if (is_bzip2(bytes)) return KnownFile{FileKind::Compressed, true, "a file compressed by bzip2", {}};
  if (std::optional<KnownFile> archive = identify_archive(bytes)) return archive;
  if (std::optional<KnownFile> wide = identify_utf16(bytes)) return wide;
  if (is_pickle(bytes))
    return KnownFile{FileKind::Pickle, has_pickle_frame(bytes), "a PyTorch checkpoint", {}};
  if (is_onnx(bytes)) return KnownFile{FileKind::Onnx, false, "an ONNX model", {}};
  return identify_text(bytes);
}

}  // namespace minuet
