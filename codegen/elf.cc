#include "codegen/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

constexpr unsigned kMachineCuda = 190;
constexpr int kReservedShared = 1024;  // of a block, by the system, from sm_90 on

/// Attributes of .nv.info sections.
enum Attribute : unsigned {
  kMaxThreads = 0x05,
  kFrameSize = 0x11,
  kMinStackSize = 0x12,
  kParamBytes = 0x19,
  kRegisterCount = 0x2f,
};

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
  return make_error(StatusCode::InvalidArgument, "not a whole cubin: {0}", what);
}

struct Section {
  llvm::StringRef name;
  llvm::StringRef bytes;  // empty for NOBITS
  Elf64_Shdr header;
};

llvm::Expected<std::vector<Section>> read_sections(llvm::StringRef file, const Elf64_Ehdr& header) {
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) return broken("no section table");
  std::vector<Section> sections;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = load<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    if (!section) return broken("its section table ends past the file");
    const bool in_file = section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL;
    const auto bytes = in_file ? slice(file, section->sh_offset, section->sh_size) : llvm::StringRef();
    if (!bytes) return broken("a section ends past the file");
    sections.push_back({{}, *bytes, *section});
  }
  if (header.e_shstrndx >= sections.size()) return broken("no section names");
  const llvm::StringRef names = sections[header.e_shstrndx].bytes;
  for (Section& section : sections) section.name = text_at(names, section.header.sh_name);
  return sections;
}

const Section* find(const std::vector<Section>& sections, llvm::StringRef name) {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const Section& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

/// Calls visit(attribute, value bytes) for each entry of a .nv.info section.
template <class Visit>
void for_each_attribute(llvm::StringRef info, const Visit& visit) {
  while (info.size() >= 4) {
    const unsigned format = static_cast<unsigned char>(info[0]);
    const unsigned attribute = static_cast<unsigned char>(info[1]);
    const std::uint16_t value = *load<std::uint16_t>(info, 2);
    // Format 4 has `value` bytes behind it, the others have their value in place.
    const std::size_t size = format == 4 ? value : 0;
    if (info.size() < 4 + size) return;
    visit(attribute, format == 4 ? info.substr(4, size) : info.substr(2, 2));
    info = info.drop_front(4 + size);
  }
}

/// Name of symbol `index` of the cubin's symbol table.
llvm::StringRef symbol_name(const std::vector<Section>& sections, std::uint32_t index) {
  const Section* symbols = find(sections, ".symtab");
  const Section* names = find(sections, ".strtab");
  if (symbols == nullptr || names == nullptr) return {};
  const auto symbol = load<Elf64_Sym>(symbols->bytes, std::uint64_t{index} * sizeof(Elf64_Sym));
  return symbol ? text_at(names->bytes, symbol->st_name) : llvm::StringRef();
}

void read_file_attributes(const std::vector<Section>& sections, llvm::StringRef kernel, CubinFacts& facts) {
  const Section* info = find(sections, ".nv.info");
  if (info == nullptr) return;
  for_each_attribute(info->bytes, [&](unsigned attribute, llvm::StringRef value) {
    const auto symbol = load<std::uint32_t>(value, 0);
    const auto number = load<std::uint32_t>(value, 4);
    if (!symbol || !number || symbol_name(sections, *symbol) != kernel) return;
    const int count = static_cast<int>(*number);
    if (attribute == kRegisterCount) facts.registers = count;
    // The frame is the kernel's own, the stack has that of the functions it calls too.
    if (attribute == kFrameSize || attribute == kMinStackSize) {
      facts.local_bytes = std::max(facts.local_bytes, count);
    }
  });
}

void read_kernel_attributes(llvm::StringRef info, CubinFacts& facts) {
  for_each_attribute(info, [&](unsigned attribute, llvm::StringRef value) {
    if (attribute == kParamBytes) facts.params_bytes = load<std::uint16_t>(value, 0).value_or(0);
    if (attribute != kMaxThreads || value.size() < 12) return;
    facts.max_threads = static_cast<int>(*load<std::uint32_t>(value, 0) * *load<std::uint32_t>(value, 4) *
                                         *load<std::uint32_t>(value, 8));
  });
  if (facts.max_threads > 0) return;
  // No launch bound: what the register file has room for, in whole warps.
  const int registers = std::max(facts.registers, 1);
  facts.max_threads = std::min(1024, 65536 / registers / 32 * 32);
}

bool is_elf64(const std::optional<Elf64_Ehdr>& header) {
  return header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
}

}  // namespace

llvm::Expected<CubinFacts> read_cubin(llvm::StringRef bytes, llvm::StringRef kernel) {
  const auto header = load<Elf64_Ehdr>(bytes, 0);
  if (!is_elf64(header)) return broken("no 64-bit ELF header");
  if (header->e_machine != kMachineCuda) return broken("its machine is not CUDA");
  MINUET_ASSIGN(const std::vector<Section> sections, read_sections(bytes, *header));
  if (find(sections, (".text." + kernel).str()) == nullptr) return broken("the kernel is not in it");
  CubinFacts facts;
  // ABI 8 (CUDA 13) moved the SM number up by one byte.
  const unsigned shift = header->e_ident[EI_ABIVERSION] >= 8 ? 8 : 0;
  facts.sm = static_cast<int>((header->e_flags >> shift) & 0xff);
  read_file_attributes(sections, kernel, facts);
  if (const Section* info = find(sections, (".nv.info." + kernel).str())) {
    read_kernel_attributes(info->bytes, facts);
  }
  if (const Section* shared = find(sections, (".nv.shared." + kernel).str())) {
    const int size = static_cast<int>(shared->header.sh_size);
    facts.shared_bytes = facts.sm >= 90 ? std::max(0, size - kReservedShared) : size;
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
