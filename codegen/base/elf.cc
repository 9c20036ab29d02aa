#include "codegen/base/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

constexpr unsigned kMachineCuda = 190;

constexpr int kMostBlockThreads = 1024;  // A kernel without launch bounds allows this many threads per block.

/// Lists attributes of .nv.info sections that hold facts that the compile log does not contain.
enum Attribute : unsigned { kMaxThreads = 0x05, kParamBytes = 0x19 };

template <class T>
std::optional<T> load(llvm::StringRef bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<llvm::StringRef> slice(llvm::StringRef bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.substr(offset, size);
}

llvm::StringRef text_at(llvm::StringRef table, std::uint64_t offset) {
  return offset < table.size() ? table.drop_front(offset).take_until([](char c) { return c == '\0'; })
                               : llvm::StringRef();
}

llvm::Error broken(const char* what) {
  return make_error(StatusCode::InvalidArgument, "the cubin is damaged: {0}", what);
}

struct Section {
  llvm::StringRef name;
  /// Holds the section's content. Sections of type NOBITS or NULL have none in the file.
  llvm::StringRef bytes;
  Elf64_Shdr header;
};

llvm::Expected<std::vector<Section>> read_sections(llvm::StringRef file, const Elf64_Ehdr& header) {
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0)
    return broken("it has no section table");
  std::vector<Section> sections;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = load<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    if (!section) return broken("its section table ends past the end of the file");
    const bool in_file = section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL;
    const auto bytes = in_file ? slice(file, section->sh_offset, section->sh_size) : llvm::StringRef();
    if (!bytes) return broken("a section ends past the end of the file");
    sections.push_back({{}, *bytes, *section});
  }
  if (header.e_shstrndx >= sections.size()) return broken("it has no section names");
  const llvm::StringRef names = sections[header.e_shstrndx].bytes;
  for (Section& section : sections) section.name = text_at(names, section.header.sh_name);
  return sections;
}

const Section* find(const std::vector<Section>& sections, llvm::StringRef name) {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const Section& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

void read_attributes(llvm::StringRef info, CubinFacts& facts) {
  while (info.size() >= 4) {
    const unsigned format = static_cast<unsigned char>(info[0]);
    const unsigned attribute = static_cast<unsigned char>(info[1]);
    const std::uint16_t number = *load<std::uint16_t>(info, 2);
    // The value of an attribute of format 4 is in the `number` bytes that follow. Other attributes have their
    // value in `number`.
    const auto value = slice(info, 4, format == 4 ? number : 0);
    if (!value) return;
    if (attribute == kParamBytes && format != 4) facts.params_bytes = number;
    if (attribute == kMaxThreads && value->size() >= 12) {
      facts.max_threads = static_cast<int>(*load<std::uint32_t>(*value, 0) * *load<std::uint32_t>(*value, 4) *
                                           *load<std::uint32_t>(*value, 8));
    }
    info = info.drop_front(4 + value->size());
  }
}

bool is_elf64(const std::optional<Elf64_Ehdr>& header) {
  return header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
}

}  // namespace

llvm::Expected<CubinFacts> read_cubin(llvm::StringRef bytes, llvm::StringRef kernel) {
  const auto header = load<Elf64_Ehdr>(bytes, 0);
  if (!is_elf64(header)) return broken("it has no 64-bit ELF header");
  if (header->e_machine != kMachineCuda) return broken("its ELF header does not name CUDA as the machine");
  MINUET_ASSIGN(const std::vector<Section> sections, read_sections(bytes, *header));
  if (find(sections, (".text." + kernel).str()) == nullptr) return broken("it does not have the kernel");
  CubinFacts facts;
  facts.max_threads = kMostBlockThreads;
  // From ABI version 8 (CUDA 13) on, the SM number is in the second byte of e_flags. In earlier versions it
  // is in the first byte.
  const unsigned shift = header->e_ident[EI_ABIVERSION] >= 8 ? 8 : 0;
  facts.sm = static_cast<int>((header->e_flags >> shift) & 0xff);
  if (const Section* info = find(sections, (".nv.info." + kernel).str())) {
    read_attributes(info->bytes, facts);
  }
  return facts;
}

std::string find_build_id(llvm::StringRef notes) {
  auto padded = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  while (const auto note = load<Elf64_Nhdr>(notes, 0)) {
    const std::uint64_t start = sizeof(Elf64_Nhdr) + padded(note->n_namesz);
    const auto name = slice(notes, sizeof(Elf64_Nhdr), note->n_namesz);
    const auto value = slice(notes, start, note->n_descsz);
    if (!name || !value) return {};
    if (note->n_type == NT_GNU_BUILD_ID && *name == llvm::StringRef("GNU\0", 4)) {
      return llvm::toHex(*value, /*LowerCase=*/true);
    }
    notes = notes.drop_front(std::min<std::uint64_t>(notes.size(), start + padded(note->n_descsz)));
  }
  return {};
}

}  // namespace minuet
