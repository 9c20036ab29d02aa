#include "codegen/compile/entry.h"

#include <cstring>

#include <zstd.h>

#include "codegen/base/arch.h"
#include "codegen/base/elf.h"
#include "codegen/base/json_text.h"
#include "codegen/base/sha256.h"
#include "llvm/Support/JSON.h"

namespace minuet {
namespace {

constexpr char kMagic[8] = {'M', 'I', 'N', 'U', 'E', 'T', 'K', '\n'};
// This limits the number of bytes that a damaged size makes read_entry() allocate.
constexpr std::uint64_t kMostCubinBytes = 256u << 20;

struct Head {
  char magic[8];
  std::uint32_t format;
  std::uint32_t manifest_bytes;
  std::uint64_t frame_bytes;
  std::uint64_t cubin_bytes;
  // This is the SHA-256, in hex digits, of the manifest and the stored cubin, which is a zstd frame or
  // uncompressed.
  char digest[64];
};

llvm::Error damaged(const char* what) {
  return make_error(StatusCode::InvalidArgument, "the entry is damaged: {0}", what);
}

int int_of(const llvm::json::Object& object, llvm::StringRef name) {
  return static_cast<int>(number_or(object, name, 0));
}

llvm::Error check_ptx(const Binary& binary, Arch arch) {
  const llvm::StringRef text = binary.cubin;
  // The driver would stop reading at a NUL.
  if (text.find('\0') != llvm::StringRef::npos) return damaged("its PTX has a NUL byte");
  arch.is_virtual = false;  // PTX for compute_90 has the target sm_90.
  if (text.split("\n.target ").second.split('\n').first != format_arch(arch)) {
    return damaged("its PTX is for another architecture");
  }
  if (text.find(".entry " + binary.lowered_name + "(") == llvm::StringRef::npos) {
    return damaged("the kernel is not in its PTX");
  }
  return llvm::Error::success();
}

}  // namespace

std::string write_manifest(const Entry& entry) {
  const Binary& binary = entry.binary;
  return print_json(
      llvm::json::Object{{"request_key", entry.request_key},
                         {"build_key", entry.build_key},
                         {"name", binary.display_name},
                         {"arch", binary.arch},
                         {"lowered_names", llvm::json::Object{{entry.name_expression, binary.lowered_name}}},
                         {"registers", binary.registers},
                         {"shared_bytes", binary.shared_bytes},
                         {"local_bytes", binary.local_bytes},
                         {"max_threads", binary.max_threads},
                         {"params_bytes", binary.params_bytes},
                         {"compile_ms", binary.compile_ms},
                         {"compiler_id", binary.compiler_id},
                         // A log quotes file names, which need not be UTF-8.
                         {"log", llvm::json::fixUTF8(binary.log)}});
}

llvm::Error read_manifest(llvm::StringRef text, Entry& entry) {
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  // InvalidArgument would make the kernel cache remove the entry. The digest is right, so a writer wrote
  // exactly this text, and the fault may be in a field that this function does not need.
  if (!value) {
    return make_error(StatusCode::FailedPrecondition, "the entry is damaged: its manifest is not JSON: {0}",
                      llvm::toString(value.takeError()));
  }
  const llvm::json::Object* const object = value->getAsObject();
  const llvm::json::Object* const names = object ? object->getObject("lowered_names") : nullptr;
  if (names == nullptr || names->size() != 1) return damaged("its manifest does not name exactly one kernel");
  entry.request_key = text_or_empty(*object, "request_key");
  entry.build_key = text_or_empty(*object, "build_key");
  entry.name_expression = names->begin()->first.str();
  Binary& binary = entry.binary;
  binary.lowered_name = text_or_empty(*names, entry.name_expression);
  binary.display_name = text_or_empty(*object, "name");
  binary.arch = text_or_empty(*object, "arch");
  binary.registers = int_of(*object, "registers");
  binary.shared_bytes = int_of(*object, "shared_bytes");
  binary.local_bytes = int_of(*object, "local_bytes");
  binary.max_threads = int_of(*object, "max_threads");
  binary.params_bytes = int_of(*object, "params_bytes");
  const auto milliseconds = object->getNumber("compile_ms");
  binary.compile_ms = milliseconds ? *milliseconds : 0;
  binary.compiler_id = text_or_empty(*object, "compiler_id");
  binary.log = text_or_empty(*object, "log");
  return llvm::Error::success();
}

llvm::Error check_cubin(const Entry& entry) {
  const std::optional<Arch> arch = parse_arch(entry.binary.arch);
  if (arch && arch->is_virtual) return check_ptx(entry.binary, *arch);
  MINUET_ASSIGN(const CubinFacts facts, read_cubin(entry.binary.cubin, entry.binary.lowered_name));
  if (!arch || facts.sm != arch->number) return damaged("its cubin is for another architecture");
  return llvm::Error::success();
}

std::string write_entry(const Entry& entry) {
  const std::string manifest = write_manifest(entry);
  const std::string& cubin = entry.binary.cubin;
  std::string frame(ZSTD_compressBound(cubin.size()), '\0');
  const std::size_t packed =
      ZSTD_compress(frame.data(), frame.size(), cubin.data(), cubin.size(), /*level=*/3);
  if (!ZSTD_isError(packed) && packed < cubin.size()) {
    frame.resize(packed);
  } else {
    // The function read_entry() recognizes an uncompressed cubin by its length. The usual reason for one is
    // too little memory to compress.
    frame = cubin;
  }
  const std::string body = manifest + frame;
  Head head = {};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.format = kEntryFormat;
  head.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
  head.frame_bytes = frame.size();
  head.cubin_bytes = cubin.size();
  std::memcpy(head.digest, sha256_hex(body).data(), sizeof head.digest);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + body;
}

llvm::Expected<Entry> read_entry(llvm::StringRef bytes) {
  Head head;
  if (bytes.size() < sizeof head) return damaged("it is too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return damaged("it does not begin like an entry");
  if (head.format != kEntryFormat) return damaged("its format is not the one that this library reads");
  const llvm::StringRef body = bytes.drop_front(sizeof head);
  if (head.manifest_bytes > body.size() || head.frame_bytes != body.size() - head.manifest_bytes ||
      head.cubin_bytes > kMostCubinBytes) {
    return damaged("the sizes in its header are wrong");
  }
  if (sha256_hex(body) != llvm::StringRef(head.digest, sizeof head.digest))
    return damaged("its contents do not match its digest");
  Entry entry;
  MINUET_TRY(read_manifest(body.take_front(head.manifest_bytes), entry));
  const llvm::StringRef frame = body.drop_front(head.manifest_bytes);
  std::string& cubin = entry.binary.cubin;
  cubin.resize(head.cubin_bytes);
  if (frame.size() == cubin.size()) {
    cubin = frame.str();
  } else if (ZSTD_decompress(cubin.data(), cubin.size(), frame.data(), frame.size()) != cubin.size()) {
    return damaged("its cubin cannot be unpacked");
  }
  MINUET_TRY(check_cubin(entry));
  return entry;
}

}  // namespace minuet
