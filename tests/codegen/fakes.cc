#include "tests/codegen/fakes.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "codegen/base/arch.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void attribute(std::string& info, int code, const std::vector<int>& values) {
  info += '\4';
  info += static_cast<char>(code);
  append(info, static_cast<std::uint16_t>(values.size() * 4));
  for (int value : values) append(info, value);
}

Elf64_Ehdr make_header(int machine) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = static_cast<Elf64_Half>(machine);
  header.e_ehsize = sizeof header;
  return header;
}

struct SectionSketch {
  std::string name;
  Elf64_Word type = SHT_PROGBITS;
  std::string bytes;
  std::size_t size = 0;  // of a section without bytes
};

}  // namespace

std::string make_cubin(const CubinSketch& sketch) {
  std::string info, kernel_info, symbols(sizeof(Elf64_Sym), '\0');
  attribute(info, 0x2f, {1, sketch.registers});
  attribute(info, 0x11, {1, sketch.frame_bytes});
  attribute(kernel_info, 0x05, sketch.max_threads);
  kernel_info += "\3\x19";
  append(kernel_info, static_cast<std::uint16_t>(sketch.params_bytes));
  Elf64_Sym symbol = {};
  symbol.st_name = 1;
  append(symbols, symbol);
  std::vector<SectionSketch> sections = {{"", SHT_NULL, "", 0},
                                         {".shstrtab", SHT_STRTAB, "", 0},
                                         {".strtab", SHT_STRTAB, '\0' + sketch.kernel + '\0', 0},
                                         {".symtab", SHT_SYMTAB, symbols, 0},
                                         {".nv.info", SHT_LOPROC, info, 0},
                                         {".nv.info." + sketch.kernel, SHT_LOPROC, kernel_info, 0},
                                         {".text." + sketch.kernel, SHT_PROGBITS, sketch.code, 0}};
  if (sketch.shared_bytes > 0) {
    const std::size_t reserved = sketch.sm >= 90 ? 1024 : 0;
    sections.push_back({".nv.shared." + sketch.kernel, SHT_NOBITS, "", sketch.shared_bytes + reserved});
  }
  for (const SectionSketch& section : sections) sections[1].bytes += section.name + '\0';
  Elf64_Ehdr header = make_header(190);
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_flags = static_cast<Elf64_Word>(sketch.sm << 8);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = 1;
  std::string body, table;
  Elf64_Word name = 0;
  for (const SectionSketch& section : sections) {
    Elf64_Shdr entry = {};
    entry.sh_name = name;
    entry.sh_type = section.type;
    entry.sh_offset = sizeof header + body.size();
    entry.sh_size = section.bytes.empty() ? section.size : section.bytes.size();
    name += static_cast<Elf64_Word>(section.name.size() + 1);
    body += section.bytes;
    append(table, entry);
  }
  header.e_shoff = sizeof header + body.size();
  std::string file;
  append(file, header);
  return file + body + table;
}

std::string make_ptx(const std::string& target, const std::string& kernel, const std::string& code) {
  return "//\n\n.version 9.0\n.target " + target + "\n.address_size 64\n\n.visible .entry " + kernel +
         "(\n)\n{\n// " + code + "\nret;\n}\n";
}

llvm::Expected<NvrtcInfo> FakeCompiler::info(const CompileControl&) {
  if (id_.empty()) return make_error(StatusCode::Unavailable, "the fake is not there");
  return NvrtcInfo{"", "13.0", id_, {}};
}

llvm::Expected<Binary> FakeCompiler::compile(const KernelRequest& request, const CompileControl&) {
  const KernelSource& source = request.source;
  const std::string& arch = request.arch;
  ++compiles;
  if (before) MINUET_TRY(before(source));
  CubinSketch sketch;
  sketch.sm = capability(arch);
  sketch.code = source.text + request.key;
  Binary binary;
  binary.cubin = make_cubin(sketch);
  binary.display_name = source.display_name;
  binary.lowered_name = sketch.kernel;
  binary.arch = arch;
  binary.registers = sketch.registers;
  binary.shared_bytes = 512;
  binary.local_bytes = 8;
  binary.max_threads = 128;
  binary.params_bytes = sketch.params_bytes;
  binary.log = "a log";
  binary.compile_ms = 2.5;
  binary.compiler_id = id_;
  if (!is_ptx(arch)) return binary;
  Arch target = *parse_arch(arch);
  target.is_virtual = false;
  binary.cubin = make_ptx(format_arch(target), sketch.kernel, sketch.code);
  binary.registers = binary.shared_bytes = binary.local_bytes = binary.max_threads = binary.params_bytes = 0;
  return binary;
}

KernelSource make_source(const std::string& name, const std::string& text) {
  KernelSource source;
  source.display_name = name;
  source.text = text;
  source.name_expression = "minuet::" + name + "<1>";
  return source;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "minuet-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no temporary folder: " << pattern;
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Environment make_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

std::function<void(const std::string&)> Warnings::sink() {
  return [this](const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(text);
  };
}

std::vector<std::string> Warnings::all() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return all_;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  if (!stream.flush()) ADD_FAILURE() << "cannot write " << path;
}

/// Found by its own bytes: where compilers protect control flow another note of GNU's lies before it.
std::string with_another_build_id(std::string library, const std::string& id) {
  const std::size_t at = library.find(llvm::fromHex(id));
  if (id.empty() || at == std::string::npos) {
    ADD_FAILURE() << "the library has no build-id " << id;
  } else {
    library[at] = static_cast<char>(library[at] ^ 1);
  }
  return library;
}

}  // namespace minuet
