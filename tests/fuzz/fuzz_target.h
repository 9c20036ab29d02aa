// What the fuzz targets offer to libFuzzer and to the replay of their corpus.
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// One reader of files of anybody's.
struct FuzzTarget {
  const char* name;  // of its corpus, and of its file here without "_fuzz.cc"
  /// Takes one input. True where the reader took it to the end.
  bool (*run)(llvm::StringRef input);
};

bool fuzz_bundle(llvm::StringRef input);
bool fuzz_checkpoint(llvm::StringRef input);
bool fuzz_entry(llvm::StringRef input);
bool fuzz_manifest(llvm::StringRef input);
bool fuzz_network(llvm::StringRef input);
bool fuzz_npy(llvm::StringRef input);
bool fuzz_parameters(llvm::StringRef input);
bool fuzz_pcd(llvm::StringRef input);
bool fuzz_plan(llvm::StringRef input);
bool fuzz_ply(llvm::StringRef input);
bool fuzz_safetensors(llvm::StringRef input);
bool fuzz_tuning(llvm::StringRef input);

inline constexpr FuzzTarget kFuzzTargets[] = {{"bundle", fuzz_bundle},   {"checkpoint", fuzz_checkpoint},
                                              {"entry", fuzz_entry},     {"manifest", fuzz_manifest},
                                              {"network", fuzz_network}, {"npy", fuzz_npy},
                                              {"pcd", fuzz_pcd},         {"ply", fuzz_ply},
                                              {"tuning", fuzz_tuning},   {"safetensors", fuzz_safetensors},
                                              {"plan", fuzz_plan},       {"parameters", fuzz_parameters}};

/// Of what must hold for any input: stops where libFuzzer sees it.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

/// The path of a file that holds these bytes, for readers that take nothing but files; until the next call.
std::string file_in_memory(llvm::StringRef bytes);

}  // namespace minuet
