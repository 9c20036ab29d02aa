// This build tool packs headers for NVRTC, byte for byte, into one zstd frame. It also writes what keys.cc
// needs, which is a row for each of our headers and one digest for those of the toolkit.
//
// "embed_headers BLOB INDEX DEPFILE kernels ROOT" packs the headers of kernels.inc and their includes.
// "embed_headers BLOB INDEX DEPFILE toolkit CCCL CUDA HEADER..." packs the given headers and their includes.
//
// Include lines are followed as text without regard to #if. A few headers too many cost nothing, and the same
// set serves every architecture.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <zstd.h>

#include "codegen/base/sha256.h"
#include "codegen/source/embed/header_blob.h"

namespace {

const char* const kKernelHeaders[] = {
#define MINUET_KERNEL_ROW(name, header, spec, params, sm, ...) header,
#include "kernels_templates/kernels.inc"
};

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string folder_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash + 1);
}

class Packer {
 public:
  explicit Packer(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  /// Adds `name` and the headers that it includes. Returns false if none of the folders has it.
  bool add(const std::string& name) {
    if (headers_.count(name) != 0) return true;
    for (const std::string& folder : folders_) {
      const std::string path = folder + "/" + name;
      std::optional<std::string> text = read_file(path);
      if (!text) continue;
      const std::string& kept = headers_[name] = std::move(*text);
      paths_.push_back(path);
      for (const std::string& include : minuet::included_names(kept)) {
        if (!add(include)) add(folder_of(name) + include);
      }
      return true;
    }
    return false;
  }

  bool write(const std::string& out) const {
    std::string raw;
    for (const auto& [name, text] : headers_) minuet::append_header(raw, name, text);
    std::string frame(ZSTD_compressBound(raw.size()), '\0');
    const std::size_t size = ZSTD_compress(frame.data(), frame.size(), raw.data(), raw.size(), 15);
    if (ZSTD_isError(size)) return false;
    std::ofstream stream(out, std::ios::binary);
    const std::uint64_t raw_size = raw.size();
    stream.write(reinterpret_cast<const char*>(&raw_size), sizeof raw_size);
    stream.write(frame.data(), static_cast<std::streamsize>(size));
    return static_cast<bool>(stream.flush());
  }

  bool write_rows(const std::string& index) const {
    std::ofstream stream(index);
    for (const auto& [name, text] : headers_) {
      stream << "{\"" << name << "\", \"" << minuet::sha256_hex(text) << "\", \"";
      for (const std::string& include : minuet::included_names(text)) stream << include << "\\n";
      stream << "\"},\n";
    }
    return static_cast<bool>(stream.flush());
  }

  bool write_digest(const std::string& index) const {
    minuet::FieldHasher hasher;
    for (const auto& [name, text] : headers_) hasher.add(name, text);
    std::ofstream stream(index);
    stream << "\"" << hasher.hex() << "\"\n";
    return static_cast<bool>(stream.flush());
  }

  bool write_depfile(const std::string& depfile, const std::string& out) const {
    std::ofstream stream(depfile);
    stream << out << ":";
    for (const std::string& path : paths_) stream << " \\\n  " << path;
    stream << "\n";
    return static_cast<bool>(stream.flush());
  }

 private:
  std::vector<std::string> folders_;
  // The headers are sorted by name, so that equal headers give an equal blob.
  std::map<std::string, std::string> headers_;
  std::vector<std::string> paths_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 5) return 2;
  const std::string &blob = arguments[0], &index = arguments[1], &depfile = arguments[2];
  const bool kernels = arguments[3] == "kernels";
  std::vector<std::string> roots(kKernelHeaders, std::end(kKernelHeaders));
  if (!kernels) roots.assign(arguments.begin() + 6, arguments.end());
  Packer packer(kernels ? std::vector<std::string>{arguments[4]}
                        : std::vector<std::string>{arguments[4], arguments[5]});
  bool good = true;
  for (const std::string& root : roots) {
    if (packer.add(root)) continue;
    std::fprintf(stderr, "embed_headers: cannot read %s\n", root.c_str());
    good = false;
  }
  good = good && packer.write(blob) && packer.write_depfile(depfile, blob);
  return good && (kernels ? packer.write_rows(index) : packer.write_digest(index)) ? 0 : 1;
}
