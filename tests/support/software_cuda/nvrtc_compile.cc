#include "tests/support/software_cuda/nvrtc_compile.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/support/contents.h"
#include "tests/support/software_cuda/kernel_facts.h"
#include "tests/support/software_cuda/kernel_store.h"
// What kernels' code depends on besides their source: part of this library's build-id, so of every build key.
#include "generated/software_cuda_digest.h"

extern "C" __attribute__((used)) const char software_nvrtc_digest[] = SOFTWARE_CUDA_DIGEST;

namespace minuet::software_cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kUnitName[] = "unit.cc", kObjectName[] = "kernel.o", kLibraryName[] = "kernel.so",
               kLogName[] = "log";
constexpr char kFolderPrefix[] = "minuet-software-nvrtc-";

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Removes what processes that were killed in a compile have left.
void sweep(const fs::path& parent) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename();
    if (name.rfind(kFolderPrefix, 0) != 0) continue;
    const pid_t owner = std::atoi(name.c_str() + sizeof kFolderPrefix - 1);
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), error);
  }
}

class Folder {
 public:
  Folder() {
    const fs::path parent = fs::temp_directory_path();
    static std::once_flag swept;
    std::call_once(swept, sweep, parent);
    path_ = parent / (kFolderPrefix + std::to_string(::getpid()) + "-XXXXXX");
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder " + path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  fs::path operator/(const std::string& name) const { return fs::path(path_) / name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What `#include` lines name, those within #if among them.
std::vector<std::string> included_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#' || line.find("include", hash) == std::string::npos)
      continue;
    const std::size_t start = line.find_first_of("<\"");
    const std::size_t end = start == std::string::npos ? start : line.find_first_of(">\"", start + 1);
    if (end != std::string::npos) names.push_back(line.substr(start + 1, end - start - 1));
  }
  return names;
}

using Files = std::map<std::string, std::string>;  // by name in the compiler's folder

/// Adds the given headers that `text` reaches, so of CCCL's thousands none: the kernels that include it
/// have twins, which come first.
void add_headers(const Unit& unit, const std::string& text, Files& files, std::set<std::string>& seen) {
  for (const std::string& name : included_names(text)) {
    if (!seen.insert(name).second) continue;
    const fs::path twin = fs::path(SOFTWARE_CUDA_INCLUDE) / name;
    if (fs::exists(twin)) {
      add_headers(unit, contents(twin), files, seen);
      continue;
    }
    const auto given = unit.headers.find(name);
    if (given == unit.headers.end()) continue;  // the host's own, or the compiler says that it is not there
    if (name.front() == '/' || name.find("..") != std::string::npos) continue;
    files[name] = given->second;
    add_headers(unit, given->second, files, seen);
  }
}

/// "minuet::GatherSpec{...}" of "minuet::gather<minuet::GatherSpec{...}>"; 0, which is no Spec, of what is no
/// template.
std::string spec_of(const std::string& kernel) {
  const std::size_t start = kernel.find('<'), end = kernel.rfind('>');
  return start != std::string::npos && end != std::string::npos && end > start
             ? kernel.substr(start + 1, end - start - 1)
             : "0";
}

std::string unit_text(const Unit& unit) {
  return "#include \"tests/support/software_cuda/kernel_unit.h\"\n#line 1 \"" + unit.name + "\"\n" +
         unit.text + "\n#line 1 \"" + kUnitName +
         "\"\nextern \"C\" [[gnu::visibility(\"default\")]] void software_cuda_kernel(" +
         "const void* params) {\n  minuet::software_cuda::call(" + unit.kernel +
         ", params);\n}\n[[gnu::used]] static constexpr auto software_cuda_facts = "
         "minuet::software_cuda::facts(\n" +
         "    minuet::software_cuda::max_threads(" + spec_of(unit.kernel) +
         "), minuet::software_cuda::params_bytes(" + unit.kernel + "));\n";
}

using Words = std::vector<std::string>;

Words compile_command(const Unit& unit) {
  Words words = {SOFTWARE_CUDA_COMPILER};
  std::istringstream flags(SOFTWARE_CUDA_FLAGS);
  for (std::string flag; flags >> flag;) words.push_back(flag);
  words.insert(words.end(), unit.defines.begin(), unit.defines.end());
  for (const char* word : {"-I" SOFTWARE_CUDA_INCLUDE, "-I.", "-pipe", "-c", "-o", kObjectName, kUnitName}) {
    words.push_back(word);
  }
  return words;
}

/// By itself: the compiler, asked for a library, starts twice more, and to start is half of what it does.
/// The needed entry libcuda.so.1, by which a kernel finds the shim in the driver; and no other library: all
/// that code of the host's compiler calls, the driver has loaded. What the shim throws passes through.
Words link_command() {
  return {SOFTWARE_CUDA_LINKER,  "-shared",        "-o", kLibraryName,     kObjectName, "--no-as-needed",
          SOFTWARE_CUDA_LIBCUDA, "--eh-frame-hdr", "-s", "--build-id=none"};
}

/// This process's, but messages in English and nothing preloaded, as sanitizers are.
std::vector<std::string> compiler_environment() {
  std::vector<std::string> variables = {"LC_ALL=C"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "LC_", 3) != 0 && std::strncmp(*entry, "LD_PRELOAD=", 11) != 0)
      variables.push_back(*entry);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Whether it ended well.
bool run(Words words, const Folder& folder) {
  std::vector<std::string> variables = compiler_environment();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.path().c_str());
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, kLogName, O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // A helper's pipe to its parent is not to stay open in a compiler that outlives it.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                  pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(words[0] + " does not start: " + std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// All that the compiler is given but what the digest stands for; no other unit's is its beginning.
std::string key_of(const Files& files, const Words& compile, const Words& link) {
  std::string key;
  const auto add = [&key](const std::string& part) {
    key += std::to_string(part.size()) + " " + part + "\n";
  };
  for (const auto& [name, text] : files) {
    add(name);
    add(text);
  }
  add("");  // no file's name
  for (const Words* words : {&compile, &link}) {
    for (const std::string& word : *words) add(word);
  }
  return key + "end\n";
}

/// The header that is missing, of g++'s words or clang's; empty: that is not what was wrong.
std::string missing_header(const std::string& what) {
  constexpr char kGnu[] = ": No such file or directory", kClang[] = "' file not found";
  if (const std::size_t end = what.find(kGnu); end != std::string::npos) return what.substr(0, end);
  const std::size_t end = what.find(kClang), start = what.find('\'');
  return end == std::string::npos || start >= end ? "" : what.substr(start + 1, end - start - 1);
}

/// "gather.h(12): error: ..." of "./gather.h:12:5: error: ...": NVRTC's form, whose places Minuet's reports
/// look for.
std::string nvrtc_line(const std::string& line) {
  constexpr char kError[] = ": error: ", kFatal[] = ": fatal error: ";
  const std::size_t fatal = line.find(kFatal), at = std::min(fatal, line.find(kError));
  if (at == std::string::npos) return line;
  const std::size_t column = line.rfind(':', at - 1), number = line.rfind(':', column - 1);
  if (column == std::string::npos || number == std::string::npos) return line;
  const std::size_t start = line.rfind("./", 0) == 0 ? 2 : 0;
  const std::string place =
      line.substr(start, number - start) + "(" + line.substr(number + 1, column - number - 1) + "): ";
  if (fatal != at) return place + line.substr(at + 2);
  const std::string what = line.substr(at + sizeof kFatal - 1);
  const std::string missing = missing_header(what);
  if (missing.empty()) return place + "catastrophic error: " + what;
  return place + "catastrophic error: could not open source file \"" + missing + "\"";
}

std::string nvrtc_log(const std::string& log) {
  std::string result;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) result += nvrtc_line(line) + "\n";
  return result;
}

void read_facts(Built& built) {
  KernelFacts facts = {};
  const std::size_t at = built.library.find(std::string(kFactsMark, sizeof kFactsMark));
  if (at == std::string::npos || built.library.size() - at < sizeof facts) {
    throw std::runtime_error("the compiled kernel has no facts in it");
  }
  std::memcpy(&facts, built.library.data() + at, sizeof facts);
  built.max_threads = facts.max_threads;
  built.params_bytes = facts.params_bytes;
}

}  // namespace

Built build_kernel(const Unit& unit) {
  Files files = {{kUnitName, unit_text(unit)}};
  std::set<std::string> seen;
  add_headers(unit, files[kUnitName], files, seen);
  const Words compile = compile_command(unit), link = link_command();
  const std::string key = key_of(files, compile, link);
  Built built;
  built.library = kept(SOFTWARE_CUDA_DIGEST, key);
  if (built.library.empty()) {
    const Folder folder;
    for (const auto& [name, text] : files) write_file(folder / name, text);
    if (run(compile, folder)) run(link, folder);
    built.log = nvrtc_log(contents(folder / kLogName));
    built.library = contents(folder / kLibraryName);
    if (!built.library.empty() && built.log.empty()) keep(SOFTWARE_CUDA_DIGEST, key, built.library);
  }
  if (!built.library.empty()) read_facts(built);
  return built;
}

std::string lowered_name(const std::string& kernel) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : kernel) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;  // FNV-1a
  std::string name = "_ZN";
  std::string words = kernel.substr(0, kernel.find('<'));
  for (char& c : words) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ? c : ' ';
  std::istringstream parts(words);
  for (std::string part; parts >> part;) name += std::to_string(part.size()) + part;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return name + "E_" + digits;
}

}  // namespace minuet::software_cuda
