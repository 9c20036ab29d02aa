// The JSON manifest of an entry. What is read is written and read again as the same.
#include "codegen/compile/entry.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {

bool fuzz_manifest(llvm::StringRef input) {
  Entry entry;
  if (llvm::Error error = read_manifest(input, entry)) {
    llvm::consumeError(std::move(error));
    return false;
  }
  entry.binary.compile_ms = 0;  // 1e999 is read as infinite, which JSON cannot write
  Entry again;
  require(!llvm::errorToBool(read_manifest(write_manifest(entry), again)));
  require(again.request_key == entry.request_key && again.build_key == entry.build_key);
  require(again.name_expression == entry.name_expression);
  require(again.binary.lowered_name == entry.binary.lowered_name && again.binary.arch == entry.binary.arch);
  require(again.binary.display_name == entry.binary.display_name && again.binary.log == entry.binary.log);
  require(again.binary.registers == entry.binary.registers);
  require(again.binary.max_threads == entry.binary.max_threads);
  require(again.binary.compiler_id == entry.binary.compiler_id);
  return true;
}

}  // namespace minuet
