// Writes the seeds of the fuzz targets, made from synthetic kernels. usage: make_corpus FOLDER
#include <cstdio>
#include <filesystem>

#include "codegen/bundle/bundle_writer.h"
#include "tests/codegen/bundle/bundle_fakes.h"

namespace minuet {
namespace {

std::string small_manifest(const Entry& entry) {
  Entry stable = entry;
  stable.binary.log.clear();
  return write_manifest(stable);
}

/// What entry_fuzz and bundle_fuzz take for "a kernel".
std::string kernel_input(const std::string& manifest, const std::string& cubin) {
  const char size[2] = {static_cast<char>(manifest.size() & 0xff), static_cast<char>(manifest.size() >> 8)};
  return '\1' + std::string(size, 2) + manifest + cubin;
}

void write_seeds(const std::string& folder) {
  const auto put = [&](const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + name).parent_path());
    write_text(folder + "/" + name, bytes);
  };
  const Entry entry = make_kernel("gather", "sm_90a", "nvrtc 13.0 1 2");
  Entry shared = make_kernel("scatter", "sm_80");
  CubinSketch sketch;
  sketch.sm = 80;
  sketch.shared_bytes = 4096;
  sketch.frame_bytes = 16;
  sketch.max_threads = {};
  shared.binary.cubin = make_cubin(sketch);
  for (const Entry& one : {entry, shared}) {
    const std::string name = one.binary.display_name;
    put("manifest_fuzz/whole-" + name + ".bin", write_manifest(one));
    put("entry_fuzz/whole-file-" + name + ".bin", '\0' + write_entry(one));
    put("entry_fuzz/whole-kernel-" + name + ".bin", kernel_input(small_manifest(one), one.binary.cubin));
  }
  put("manifest_fuzz/deep.bin", std::string(3000, '['));
  put("manifest_fuzz/escapes.bin",
      R"({"lowered_names":{"a\u0000\ud83d\ude00":"b\""},"compile_ms":1e999,"registers":-1})");
  Entry same = make_kernel("gather", "sm_90a", kHost);  // the harness's own bundle is of this compiler
  put("bundle_fuzz/whole-kernel.bin", kernel_input(small_manifest(same), same.binary.cubin));
  const std::string two = llvm::cantFail(make_bundle("sm_90a", make_kernels(2), "tuning"));
  const std::string none = llvm::cantFail(make_bundle("sm_120f", {}));
  put("bundle_fuzz/whole-two.bin", '\0' + two);
  put("bundle_fuzz/whole-two-sizes.bin", '\2' + two);
  put("bundle_fuzz/whole-none.bin", '\2' + none);
}

}  // namespace
}  // namespace minuet

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  minuet::write_seeds(arguments[1]);
  return 0;
}
