#include "tests/support/software_cuda/cubin.h"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace minuet::software_cuda {
namespace {

constexpr unsigned char kOsAbiCuda = 0x41, kAbiVersion = 8;  // CUDA 13
constexpr Elf64_Half kMachineCuda = 190;
constexpr Elf64_Word kFlags = 0x06000004;  // besides the SM number, in the second byte
constexpr unsigned char kMaxThreads = 0x05, kParamBytes = 0x19, kHasBytes = 4, kHasValue = 3;
constexpr int kNames = 1, kText = 2, kInfo = 3, kSections = 4;
constexpr std::string_view kTextPrefix = ".text.";

constexpr std::string_view kPtxStart = "// PTX of the software CUDA device\n";
constexpr std::string_view kPtxCubin = "\n// cubin: ";

/// Right behind the ELF header, for the driver gets no length and must not run what was damaged.
struct Seal {
  char magic[16] = "software CUDA 1";
  std::uint64_t bytes = 0;     // of the whole image
  std::uint64_t checksum = 0;  // of the image with a 0 here
};

std::uint64_t checksum_of(std::string_view bytes, std::uint64_t hash) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;  // FNV-1a
  return hash;
}

/// Of a whole image, its checksum taken for 0.
std::uint64_t seal_of(std::string_view image) {
  constexpr std::size_t kAt = sizeof(Elf64_Ehdr) + offsetof(Seal, checksum);
  const std::uint64_t before = checksum_of(image.substr(0, kAt), 0xcbf29ce484222325u);
  return checksum_of(image.substr(kAt + sizeof(std::uint64_t)), before);
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T load(std::string_view bytes, std::size_t at) {
  T value = {};
  if (at <= bytes.size() && bytes.size() - at >= sizeof value)
    std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Elf64_Ehdr header_of(int sm, std::uint64_t table) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_OSABI] = kOsAbiCuda;
  header.e_ident[EI_ABIVERSION] = kAbiVersion;
  header.e_type = ET_EXEC;
  header.e_machine = kMachineCuda;
  header.e_version = EV_CURRENT;
  header.e_flags = kFlags | static_cast<Elf64_Word>(sm) << 8;
  header.e_ehsize = sizeof header;
  header.e_shoff = table;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = kNames;
  return header;
}

std::string info_of(const Cubin& cubin) {
  std::string info;
  if (cubin.max_threads > 0) {
    info += {static_cast<char>(kHasBytes), static_cast<char>(kMaxThreads)};
    append(info, std::uint16_t{12});
    for (const std::uint32_t threads : {static_cast<std::uint32_t>(cubin.max_threads), 1u, 1u})
      append(info, threads);
  }
  info += {static_cast<char>(kHasValue), static_cast<char>(kParamBytes)};
  append(info, static_cast<std::uint16_t>(cubin.params_bytes));
  return info;
}

void read_info(std::string_view info, Cubin& cubin) {
  if (!info.empty() && info[0] == static_cast<char>(kHasBytes)) {
    cubin.max_threads = static_cast<int>(load<std::uint32_t>(info, 4));
    info.remove_prefix(16);
  }
  cubin.params_bytes = load<std::uint16_t>(info, 2);
}

std::string_view section(std::string_view image, int index) {
  const auto table = load<Elf64_Ehdr>(image, 0).e_shoff;
  const auto header = load<Elf64_Shdr>(image, table + static_cast<std::size_t>(index) * sizeof(Elf64_Shdr));
  if (header.sh_offset > image.size() || image.size() - header.sh_offset < header.sh_size) return {};
  return image.substr(header.sh_offset, header.sh_size);
}

std::optional<Cubin> unwrap_elf(std::string_view image) {
  const auto header = load<Elf64_Ehdr>(image, 0);
  const Elf64_Ehdr written = header_of(static_cast<int>(header.e_flags >> 8 & 0xff), header.e_shoff);
  const auto seal = load<Seal>(image, sizeof header);
  if (std::memcmp(&header, &written, sizeof header) != 0 || seal.checksum != seal_of(image))
    return std::nullopt;
  Cubin cubin;
  cubin.sm = static_cast<int>(header.e_flags >> 8 & 0xff);
  const std::string_view names = section(image, kNames);
  const std::size_t start = names.find(kTextPrefix) + kTextPrefix.size();
  cubin.kernel = names.substr(start, names.find('\0', start) - start);
  cubin.library = section(image, kText);
  read_info(section(image, kInfo), cubin);
  return cubin;
}

std::string to_hex(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) {
    digits += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    digits += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return digits;
}

/// Empty for what are no hex digits.
std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    int value = 0;
    for (const char c : {digits[i], digits[i + 1]}) {
      const std::size_t digit = std::string_view("0123456789abcdef").find(c);
      if (digit == std::string_view::npos) return {};
      value = value * 16 + static_cast<int>(digit);
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

/// The length that an image's own header and seal agree on; 0 where they do not, or it is none of ours.
std::uint64_t length_of(const char* image) {
  const auto header = load<Elf64_Ehdr>({image, sizeof(Elf64_Ehdr)}, 0);
  const std::uint64_t bytes = header.e_shoff + kSections * sizeof(Elf64_Shdr);
  if (header.e_machine != kMachineCuda || header.e_shnum != kSections || bytes < sizeof header + sizeof(Seal))
    return 0;
  const auto seal = load<Seal>({image + sizeof header, sizeof(Seal)}, 0);
  return std::memcmp(seal.magic, Seal{}.magic, sizeof seal.magic) == 0 && seal.bytes == bytes ? bytes : 0;
}

}  // namespace

std::string wrap(const Cubin& cubin) {
  const std::array<std::string, kSections> names = {"", ".shstrtab", std::string(kTextPrefix) + cubin.kernel,
                                                    ".nv.info." + cubin.kernel};
  std::array<std::string, kSections> bytes = {"", "", cubin.library, info_of(cubin)};
  for (const std::string& name : names) bytes[kNames] += name + '\0';
  constexpr Elf64_Word kTypes[] = {SHT_NULL, SHT_STRTAB, SHT_PROGBITS, SHT_LOPROC};
  std::string body, table;
  Elf64_Word name = 0;
  for (std::size_t i = 0; i < kSections; ++i) {
    Elf64_Shdr header = {};
    header.sh_name = name;
    header.sh_type = kTypes[i];
    header.sh_offset = sizeof(Elf64_Ehdr) + sizeof(Seal) + body.size();
    header.sh_size = bytes[i].size();
    append(table, header);
    body += bytes[i];
    name += static_cast<Elf64_Word>(names[i].size() + 1);
  }
  Seal seal;
  const std::uint64_t table_at = sizeof(Elf64_Ehdr) + sizeof seal + body.size();
  seal.bytes = table_at + table.size();
  std::string image;
  append(image, header_of(cubin.sm, table_at));
  append(image, seal);
  image += body + table;
  seal.checksum = seal_of(image);
  std::memcpy(image.data() + sizeof(Elf64_Ehdr), &seal, sizeof seal);
  return image;
}

std::string wrap_as_ptx(const Cubin& cubin, const std::string& target) {
  return std::string(kPtxStart) + "\n.version 9.0\n.target " + target +
         "\n.address_size 64\n\n.visible .entry " + cubin.kernel + "(\n)\n{" + std::string(kPtxCubin) +
         to_hex(wrap(cubin)) + "\n}\n";
}

std::optional<Cubin> unwrap(const void* image) {
  const char* const bytes = static_cast<const char*>(image);
  if (std::strncmp(bytes, kPtxStart.data(), kPtxStart.size()) != 0) {
    // No byte is read that would lie past a shorter text.
    if (std::strncmp(bytes, ELFMAG, SELFMAG) != 0) return std::nullopt;
    const std::uint64_t length = length_of(bytes);
    return length != 0 ? unwrap_elf({bytes, length}) : std::nullopt;
  }
  const std::string_view text = bytes;
  const std::size_t at = text.find(kPtxCubin);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t start = at + kPtxCubin.size();
  const std::string cubin = from_hex(text.substr(start, text.find('\n', start) - start));
  if (cubin.size() < sizeof(Elf64_Ehdr) + sizeof(Seal) || length_of(cubin.data()) != cubin.size())
    return std::nullopt;
  return unwrap_elf(cubin);
}

}  // namespace minuet::software_cuda
