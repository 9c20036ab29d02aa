#include "codegen/embedded_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "codegen/emit.h"
#include "codegen/keys.h"
#include "tests/codegen/fakes.h"

extern "C" {
extern const char minuet_cuda_headers[], minuet_cccl_headers[];  // a digest, then what is packed
}

namespace minuet {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_for(const std::string& text) {
  std::vector<std::string> names;
  for (const Header& header : llvm::cantFail(headers_for(text))) names.push_back(header.name.str());
  return names;
}

bool has_prefix(const std::vector<std::string>& names, const std::string& prefix) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.compare(0, prefix.size(), prefix) == 0; });
}

TEST(EmbeddedHeaders, R03_OursAreTheFilesOfTheTreeByteForByte) {
  std::string text;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) text += "#include \"" header "\"\n";
#include "kernels_templates/kernels.inc"
  int checked = 0;
  for (const Header& header : llvm::cantFail(headers_for(text))) {
    if (header.name.take_front(18) != "kernels_templates/") continue;
    EXPECT_EQ(header.text.str(), read_text(MINUET_SOURCE_DIR "/" + header.name.str())) << header.name.str();
    EXPECT_EQ(header.text.data()[header.text.size()], '\0') << "NVRTC wants C strings";
    EXPECT_EQ(header.name.data()[header.name.size()], '\0');
    ++checked;
  }
  EXPECT_GE(checked, 24);
}

TEST(EmbeddedHeaders, R03_NoIncludeLeavesTheEmbeddedSet) {
  for (const char* line : {"#include \"/etc/passwd\"\n", " # include </usr/include/stdio.h>\n",
                           "#include \"../x.h\"\n", "#include \"kernels_templates/../../x.h\"\n"}) {
    const StatusError status = take_status(headers_for(line).takeError());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument) << line;
    EXPECT_THAT(status.message(), HasSubstr("only embedded headers"));
  }
  EXPECT_THAT(names_for("// #include \"/etc/passwd\"\nint include;\n"), testing::IsEmpty());
}

TEST(EmbeddedHeaders, R29_AKernelPaysForWhatItIncludes) {
  const std::vector<std::string> plain = names_for(emit(UniqueSpec{}).text);
  EXPECT_TRUE(has_prefix(plain, "kernels_templates/map/unique.h"));
  EXPECT_FALSE(has_prefix(plain, "kernels_templates/gmas/")) << "of ours only what it includes";
  EXPECT_FALSE(has_prefix(plain, "cub/"));
  EXPECT_FALSE(has_prefix(plain, "cuda_"));
  const std::vector<std::string> half = names_for(emit(GatherSpec{}).text);
  EXPECT_FALSE(has_prefix(half, "cub/"));
  EXPECT_LT(half.size(), 60u);
  const std::vector<std::string> scan = names_for(emit(ScanSpec{}).text);
  EXPECT_TRUE(has_prefix(scan, "cub/agent/agent_scan.cuh"));
  EXPECT_TRUE(has_prefix(scan, "cuda_fp16.h"));
  std::vector<std::string> sorted = scan;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "no header twice";
}

/// A label and a value, with their lengths before them.
std::string field(const std::string& label, const std::string& value) {
  return std::to_string(label.size()) + ":" + label + std::to_string(value.size()) + ":" + value;
}

TEST(EmbeddedHeaders, R01_TheDigestIsOfTheBytesAlone) {
  std::string text;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) text += "#include \"" header "\"\n";
#include "kernels_templates/kernels.inc"
  std::map<std::string, std::string> ours;
  for (const std::string& name : names_for(text)) {
    if (name.compare(0, 18, "kernels_templates/") == 0) ours[name] = read_text(MINUET_SOURCE_DIR "/" + name);
  }
  std::string fields;
  for (const auto& [name, bytes] : ours) fields += field(name, bytes);
  const std::string kernels = sha256_hex(fields), cuda(minuet_cuda_headers, 64),
                    cccl(minuet_cccl_headers, 64);
  EXPECT_EQ(embedded_header_digest(),
            sha256_hex(field("kernels", kernels) + field("cuda", cuda) + field("cccl", cccl)));
  EXPECT_NE(cuda, cccl);
}

TEST(EmbeddedHeaders, IncludeLinesAreFoundAsWritten) {
  EXPECT_THAT(
      included_names(
          "#include <a/b.h>\n  #  include \"c.h\" // x\n//#include <d>\n#include MACRO\nx\n#include <e"),
      testing::ElementsAre("a/b.h", "c.h"));
  EXPECT_THAT(included_names(""), testing::IsEmpty());
}

TEST(EmbeddedHeaders, ReportsCanQuoteThem) {
  names_for(emit(GatherSpec{}).text);
  EXPECT_THAT(unpacked_header("kernels_templates/gmas/gather.h").str(), HasSubstr("gather"));
  EXPECT_EQ(unpacked_header("nothing.h"), "");
}

}  // namespace
}  // namespace minuet
