// Files as other programs, editors and downloads leave them, for the table of command lines.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/ply_headers.h"
#include "tests/tools/minuet/commands/cli_files.h"

namespace minuet::tool {
namespace {

constexpr const char* kLfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:26d0\nsize 381\n";
constexpr const char* kMark = "\xef\xbb\xbf";

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read(const std::string& folder, const std::string& name) { return contents(folder + "/" + name); }

/// The forty points of p.ply and p.pcd, written otherwise.
void make_odd_clouds(const std::string& folder) {
  const auto file = [&](const std::string& name, const std::string& bytes) {
    write_bytes(folder + "/" + name, bytes);
  };
  const std::string ply = read(folder, "p.ply"), pcd = read(folder, "p.pcd");
  const size_t body = ply.find("end_header\n") + 11;
  file("p_upper.ply", replaced(replaced(ply, "float x", "float X"), "intensity", "Intensity"));
  file("p_mark.ply", kMark + ply);
  file("p_cr.ply", replaced(ply, "\n", "\r"));
  file("p_blank.ply", replaced(ply, "ply\n", "ply \n"));
  file("p_words.ply", ply.substr(0, body) + replaced(replaced(ply.substr(body), "\n", " "), " ", "\n"));
  file("p_one_line.ply", ply.substr(0, body) + replaced(ply.substr(body), "\n", " "));
  file("p_bool.ply", replaced(ply.substr(0, body), "end_header", "property bool keep\nend_header") +
                         replaced(ply.substr(body), "\n", " 1\n"));
  file("p_i.ply", replaced(ply, "intensity", "i"));
  file("p_i.pcd", replaced(pcd, "intensity", "i"));
  file("p_cr.pcd", replaced(pcd, "\n", "\r"));
  file("p_mark.pcd", kMark + pcd);
  file("p_plain.pcd",
       replaced(replaced(pcd, "SIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 40\nHEIGHT 1\n", ""),
                "DATA ascii", "DATA ASCII"));
  file("p_lower.pcd", replaced(pcd, "TYPE F F F F", "TYPE f f f f"));
  const std::string npy = read(folder, "p.npy");
  file("p_py2.npy", replaced(npy, "(40, 4), }  ", "(40L, 4L), }"));
  const std::string header = vertex_header(2, kXyz);
  const std::string with_faces =
      replaced(ply, "end_header\n", "element face 2\nproperty list uchar int i\nend_header\n");
  file("one_more.ply", replaced(with_faces, "vertex 40", "vertex 41") + "3 0 1 2\n3 1 2 3\n");
  file("one_less.ply", replaced(with_faces, "vertex 40", "vertex 39") + "3 0 1 2\n3 1 2 3\n");
  file("bad_faces.ply", with_faces + "3 0 1 2\n3 1\n");
  file("huge_number.ply", replaced(header, "vertex 2", "vertex 1") + "1 2 1e39\n");
  file("comma.ply", header + "1 2 3\n4 0,5 6\n");
  file("fortran.ply", header + "1 2 3\n4 5 6.25D+00\n");
  file("comma.pcd", "FIELDS x y z\nPOINTS 2\nDATA ascii\n1 2 3\n4 0,5 6\n");
}

/// What Git, a server or another program left in the place of a file.
void make_other_kinds(const std::string& folder) {
  for (const char* name : {"lfs.bin", "lfs.ply", "lfs.pcd", "lfs.npy", "lfs.safetensors", "lfs.json",
                           "lfs.jsonl", "lfs.bundle"}) {
    write_bytes(folder + "/" + name, kLfsPointer);
  }
  for (const char* name : {"page.bin", "page.ply", "page.safetensors", "page.json", "page.bundle"}) {
    write_bytes(folder + "/" + name, "<!DOCTYPE html>\n<html><title>Not found</title></html>\n");
  }
  const std::string torch = std::string("PK\x03\x04\x14\0\0\0", 8) + "archive/data.pkl";
  for (const char* name : {"torch.bin", "torch.json", "torch.ply"}) write_bytes(folder + "/" + name, torch);
  write_bytes(folder + "/index.json",
              R"({"metadata": {}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  for (const char* name :
       {"message.bin", "message.ply", "message.safetensors", "message.json", "message.bundle"}) {
    write_bytes(folder + "/" + name, "Entry not found");
  }
  write_bytes(folder + "/zero.json", read(folder, "tiny.json") + std::string("\0garbage", 8));
  write_bytes(folder + "/far.bin", packed(1.0f) + packed(2.0f) + packed(3.0f) + packed(4.0f) + packed(1e9f) +
                                       packed(0.0f) + packed(0.0f) + packed(0.0f));
  write_bytes(folder + "/array.ply", read(folder, "p.npy"));
  std::filesystem::create_directory(folder + "/results_lfs");
  write_bytes(folder + "/results_lfs/r.json", kLfsPointer);
}

void make_odd_texts(const std::string& folder) {
  for (const char* name : {"tiny", "palette", "names"}) {
    const std::string text = read(folder, std::string(name) + ".json");
    write_bytes(folder + "/" + name + "_mark.json", kMark + replaced(text, " ", "\r"));
  }
  std::filesystem::create_directory(folder + "/results_mark");
  write_bytes(folder + "/results_mark/r.json", kMark + read(folder, "results/bench.json"));
}

}  // namespace

void make_odd_cli_files(const std::string& folder) {
  make_odd_clouds(folder);
  make_other_kinds(folder);
  make_odd_texts(folder);
}

}  // namespace minuet::tool
