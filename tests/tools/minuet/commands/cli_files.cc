#include "tests/tools/minuet/commands/cli_files.h"

#include <lzf.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/safetensors_writer.h"
#include "tests/support/torch_writer.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/ply_headers.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

/// Forty points on a grid of quarters, which every type holds; some share a voxel of 0.5 m.
std::vector<Point> good_points(const Position& shift = {}) {
  std::vector<Point> points;
  for (int i = 0; i < 40; ++i) {
    const auto place = [&](int factor, int size) { return 0.25 * (i * factor % size) - 2 + 0.125; };
    points.push_back(
        {place(7, 9) + shift[0], place(11, 7) + shift[1], place(3, 5) + shift[2], 0.125 * (i % 8)});
  }
  return points;
}

constexpr Position kUtm = {450000, 5.4e6, 300};

template <class T>
std::string rows_of(const std::vector<Point>& points, int columns, bool big_endian = false) {
  std::string bytes;
  for (size_t i = 0; i < points.size(); ++i) {
    for (int c = 0; c < columns; ++c) {
      const double value = c < 4 ? points[i][static_cast<size_t>(c)] : static_cast<double>(i % 200);
      bytes += packed(static_cast<T>(value), big_endian);
    }
  }
  return bytes;
}

std::string text_of(const std::vector<Point>& points, int digits) {
  std::string text;
  char row[160];
  for (const Point& point : points) {
    std::snprintf(row, sizeof(row), "%.*g %.*g %.*g %.*g\n", digits, point[0], digits, point[1], digits,
                  point[2], digits, point[3]);
    text += row;
  }
  return text;
}

std::string ply(const std::string& format, const std::string& type, const std::string& body, int count = 40) {
  std::string text = "ply\nformat " + format + " 1.0\nelement vertex " + std::to_string(count) + "\n";
  for (const char* name : {"x", "y", "z", "intensity"}) text += "property " + type + " " + name + "\n";
  return text + "end_header\n" + body;
}

std::string ply_of_uchar(const std::string& value) {
  return vertex_header(1, kXyz + "property uchar intensity\n") + "1 2 3 " + value + "\n";
}

std::string pcd(const std::string& data, const std::string& body, const std::string& size = "4 4 4 4") {
  return "VERSION 0.7\nFIELDS x y z intensity\nSIZE " + size +
         "\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 40\nHEIGHT 1\nPOINTS 40\nDATA " + data + "\n" + body;
}

std::string transposed(const std::vector<Point>& points) {
  std::string bytes;
  for (size_t c = 0; c < 4; ++c) {
    for (const Point& point : points) bytes += packed(static_cast<float>(point[c]));
  }
  return bytes;
}

std::string compressed(const std::vector<Point>& points) {
  const std::string planes = transposed(points);
  std::string out(2 * planes.size(), '\0');
  out.resize(lzf_compress(planes.data(), static_cast<unsigned>(planes.size()), out.data(),
                          static_cast<unsigned>(out.size())));
  return packed(static_cast<uint32_t>(out.size())) + packed(static_cast<uint32_t>(planes.size())) + out;
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data,
                const char* fortran = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header.back() = '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + packed(static_cast<uint16_t>(header.size())) + header + data;
}

std::string halves(const std::vector<Point>& points) {
  std::string bytes;
  for (const Point& point : points) {
    for (const double value : point) bytes += packed(float_to_half(static_cast<float>(value)));
  }
  return bytes;
}

class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}
  void operator()(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }

 private:
  std::string folder_;
};

void make_good_clouds(const Files& file) {
  const std::vector<Point> points = good_points(), far = good_points(kUtm);
  file("p.bin", rows_of<float>(points, 4));
  file("P.BIN", rows_of<float>(points, 4));
  file("p3.bin", rows_of<float>(points, 3));
  file("p5.bin", rows_of<float>(points, 5));
  file("p6.bin", rows_of<float>(points, 6));
  file("p with blank.bin", rows_of<float>(points, 4));
  file("100%.bin", rows_of<float>(points, 4));
  file("p.ply", ply("ascii", "float", text_of(points, 9)));
  file("P.Ply", ply("ascii", "float32", text_of(points, 9)));
  file("p_le.ply", ply("binary_little_endian", "float", rows_of<float>(points, 4)));
  file("p_be.ply", ply("binary_big_endian", "float", rows_of<float>(points, 4, true)));
  file("p_double.ply", ply("binary_little_endian", "double", rows_of<double>(points, 4)));
  file("p.pcd", pcd("ascii", text_of(points, 9)));
  file("P.PCD", pcd("binary", rows_of<float>(points, 4)));
  file("p_double.pcd", pcd("binary", rows_of<double>(points, 4), "8 8 8 8"));
  file("p_lzf.pcd", pcd("binary_compressed", compressed(points)));
  file("p.npy", npy("<f4", "(40, 4)", rows_of<float>(points, 4)));
  file("p_f8.npy", npy("<f8", "(40, 4)", rows_of<double>(points, 4)));
  file("p_be.npy", npy(">f8", "(40, 4)", rows_of<double>(points, 4, true)));
  file("p_fortran.npy", npy("<f4", "(40, 4)", transposed(points), "True"));
  file("p_f2.npy", npy("<f2", "(40, 4)", halves(points)));
  file("p3.npy", npy("<f4", "(40, 3)", rows_of<float>(points, 3)));
  file("p7.npy", npy("<f4", "(40, 7)", rows_of<float>(points, 7)));
  file("utm.npy", npy("<f8", "(40, 4)", rows_of<double>(far, 4)));
  file("utm.ply", ply("ascii", "double", text_of(far, 17)));
  file("mixed.ply",
       vertex_header(40, replaced(replaced(kXyzi, "float x", "double x"), "float y", "double y")) +
           text_of(far, 17));
  file("utm_f4.npy", npy("<f4", "(40, 4)", rows_of<float>(far, 4)));
  file("utm_f4.bin", rows_of<float>(far, 4));
  file("utm_float.ply", ply("ascii", "float", text_of(far, 17)));
  file("faces.ply",
       "ply\nformat ascii 1.0\nelement camera 1\nproperty int i\nelement vertex 2\nproperty float x\n"
       "property float y\nproperty float z\nelement face 1\nproperty list uchar int i\nelement edge 0\n"
       "property int i\nend_header\n7\n1 2 3\n4 5 6\n2 0 1\n");
  const std::string face = "element face 2\nproperty list uchar int i\nend_header\n";
  const std::string mesh =
      "ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty "
      "float z\n" +
      face + packed(1.0f) + packed(2.0f) + packed(3.0f) + '\1' + packed(0) + '\1' + packed(0);
  file("escape.ply", std::string("ply\nformat \x1b[31m\0 1.0\n", 22));
  file("mesh.ply", mesh);
  file("mesh_short.ply", mesh.substr(0, mesh.size() - 1));
  file("mesh_longer.ply", mesh + "\n");
  file("mesh_short_ascii.ply",
       "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n" +
           face + "1 2 3\n1 0\n");
  file("p_pages.pcd", pcd("binary", rows_of<float>(points, 4) + std::string(4000, '\0')));
  file("p_lzf_pages.pcd", pcd("binary_compressed", compressed(points) + std::string(4000, '\0')));
  file("uchar_255.ply", ply_of_uchar("255"));
  file("one.bin", rows_of<float>({points[0]}, 4));
  file("none.npy", npy("<f4", "(0, 4)", ""));
}

void make_bad_clouds(const Files& file) {
  const std::vector<Point> points = good_points();
  const std::string bin = rows_of<float>(points, 4), text = text_of(points, 9);
  std::vector<Point> invalid = points;
  invalid[3][0] = std::numeric_limits<double>::quiet_NaN();
  invalid[4][2] = std::numeric_limits<double>::infinity();
  file("nan.bin", rows_of<float>(invalid, 4));
  file("nan_only.bin", rows_of<float>({invalid[3]}, 4));
  file("nan.ply", ply("ascii", "float", text_of(invalid, 9)));
  file("empty.bin", "");
  file("short.bin", bin.substr(0, bin.size() - 3));
  file("cloud.xyz", text);
  file("noextension", bin);
  file("text.bin", "these are no float numbers; but 32 ..");
  file("nonsense.ply", "nonsense");
  file("nonsense.pcd", "nonsense");
  file("nonsense.npy", "nonsense");
  file("short.ply", ply("ascii", "float", text.substr(0, text.size() / 2)));
  file("short_le.ply", ply("binary_little_endian", "float", bin.substr(0, bin.size() - 1)));
  file("word.ply", ply("ascii", "float", "1 2 three 4\n", 1));
  file("noend.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\n");
  file("noxyz.ply", vertex_header(1, "property float a\n") + "1\n");
  file("twice.ply", vertex_header(1, "property float x\n" + kXyz) + "1 1 2 3\n");
  file("huge.ply", ply("binary_little_endian", "float", "", 2000000000));
  file("list.ply",
       "ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int i\nelement vertex 1\nproperty float "
       "x\nproperty float y\nproperty float z\nend_header\n1.5 7 1 2 3\n");
  file("noface.ply", "ply\nformat ascii 1.0\nelement face 0\nproperty int a\nend_header\n");
  file("fewer.ply", vertex_header(2, kXyz) + "1 2 3\n4 5\n6 7 8\n");
  file("more.ply", vertex_header(2, kXyz) + "1 2 3 4\n5 6 7\n");
  file("rows.ply", vertex_header(1, kXyz) + "1 2 3\n\n4 5 6\n");
  file("more.pcd", pcd("ascii", "9 " + text));
  file("rows.pcd", pcd("ascii", text + "1 2 3 4\n"));
  file("longer.npy", npy("<f4", "(40, 4)", bin + "more"));
  file("longer.ply", ply("binary_little_endian", "float", bin + bin.substr(0, 16)));
  file("longer.pcd", pcd("binary", bin + bin.substr(0, 16)));
  file("time.pcd",
       "VERSION 0.7\nFIELDS x y z time\nSIZE 4 4 4 8\nTYPE F F F U\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA ascii\n"
       "1 2 3 1700000000123456789\n");
  file("uchar.ply", ply_of_uchar("300"));
  file("negative.ply", ply_of_uchar("-1"));
  file("fraction.ply", ply_of_uchar("1.5"));
  file("uchar.pcd",
       "VERSION 0.7\nFIELDS x y z i\nSIZE 4 4 4 1\nTYPE F F F U\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA ascii\n"
       "1 2 3 256\n");
  file("intensities.pcd",
       "VERSION 0.7\nFIELDS x y z intensity intensity\nSIZE 4 4 4 4 4\nTYPE F F F F F\nWIDTH 1\nHEIGHT 1\n"
       "POINTS 1\nDATA ascii\n1 2 3 4 5\n");
  file("longer_lzf.pcd", pcd("binary_compressed", compressed(points) + "1 2 3 4\n"));
  file("transposed.npy", npy("<f4", "(4, 40)", bin));
  file("utf16.ply", std::string("\xff\xfep\0l\0y\0\n\0", 10));
  file("short.pcd", pcd("binary", bin.substr(0, 100)));
  file("short_ascii.pcd", pcd("ascii", text.substr(0, 100)));
  file("form.pcd", pcd("zipped", bin));
  file("lzf.pcd", pcd("binary_compressed", packed(uint32_t{4}) + packed(uint32_t{640}) + "abcd"));
  file("word.pcd", pcd("ascii", "x y z i\n" + text));
  file("twice.pcd",
       "VERSION 0.7\nFIELDS x x y z\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 1\nHEIGHT 1\nPOINTS 1\n"
       "DATA ascii\n1 1 2 3\n");
  file("size.pcd",
       "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\nPOINTS 3\nDATA ascii\n1 2 3\n");
  file("short.npy", npy("<f4", "(40, 4)", bin.substr(0, 100)));
  file("flat.npy", npy("<f4", "(160,)", bin));
  file("cube.npy", npy("<f4", "(10, 4, 4)", bin));
  file("two.npy", npy("<f4", "(80, 2)", bin));
  file("complex.npy", npy("<c8", "(20, 4)", bin));
  file("shapes.npy", npy("<f4", "(40, 4), 'shape': (40, 4)", bin));
  file("huge.npy", npy("<f4", "(9223372036854775807, 4)", bin));
  file("far.bin", rows_of<float>({{1e12, 2, 3, 4}}, 4));
  file("farther.npy", npy("<f8", "(1, 3)", packed(1e300) + packed(0.0) + packed(0.0)));
  file("wide.npy", npy("<f8", "(2, 3)",
                       packed(-4e6) + packed(0.0) + packed(0.0) + packed(4e6) + packed(0.0) + packed(0.0)));
}

void make_voxels(const Files& file) {
  const auto ints = [](const std::vector<int32_t>& values, int64_t columns) {
    return npy_bytes(values, {static_cast<int64_t>(values.size()) / columns, columns});
  };
  const auto floats = [](const std::vector<float>& values, int64_t columns) {
    return npy_bytes(values, {static_cast<int64_t>(values.size()) / columns, columns});
  };
  file("v.npy", ints({0, 0, 0, 0, 0, 1, -2, 3, 3}, 3));
  file("v4.npy", ints({1, 0, 0, 0, 0, 0, 0, 1, 0, -2, 3, 3}, 4));
  file("v2.npy", ints({0, 0, 1, 1}, 2));
  file("v5.npy", ints({0, 0, 0, 0, 0}, 5));
  file("twice.npy", ints({1, 2, 3, 4, 5, 6, 1, 2, 3}, 3));
  file("negative.npy", ints({-1, 0, 0, 0}, 4));
  file("int64.npy", npy("<i8", "(1, 3)", packed(int64_t{1} << 40) + packed(int64_t{0}) + packed(int64_t{0})));
  file("int64_good.npy", npy("<i8", "(1, 3)", packed(int64_t{-7}) + packed(int64_t{0}) + packed(int64_t{9})));
  file(
      "corners.npy",
      ints({0, -2147483647 - 1, -2147483647 - 1, -2147483647 - 1, 0, 2147483647, 2147483647, 2147483647}, 4));
  file("f.npy", floats(std::vector<float>(12, 0.5f), 4));
  file("f_2rows.npy", floats(std::vector<float>(8, 0.5f), 4));
  file("f_5columns.npy", floats(std::vector<float>(15, 0.5f), 5));
  file("f_nan.npy", floats(std::vector<float>(12, std::nanf("")), 4));
  file("f_60000.npy", floats(std::vector<float>(12, 60000.0f), 4));
  file("f_large.npy", floats(std::vector<float>(12, 1e6f), 4));
  std::string large;
  for (int i = 0; i < 12; ++i) large += packed(i == 9 ? -1e300 : 0.5);
  file("f_f64_large.npy", npy("<f8", "(3, 4)", large));
  file("loud.npy", npy("<f8", "(1, 4)", packed(0.0) + packed(0.0) + packed(0.0) + packed(1e300)));
  file("f_corners.npy", floats(std::vector<float>(8, 1.0f), 4));
  file("f_int.npy", ints(std::vector<int32_t>(12, 2), 4));
}

void make_networks(const Files& file) {
  const auto network = [](const std::string& layers) {
    return R"({"name": "tiny", "ndim": 3, "in_channels": 4, "channels": [4, 8], "layers": [)" + layers + "]}";
  };
  const std::string block = R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3})";
  const std::string down = R"({"op": "block", "name": "b", "width": 1, "kernel_size": 2, "stride": 2})";
  file("tiny.json", network(block));
  file("coarse.json", network(block + ", " + down));
  file(
      "generative.json",
      network(down + R"(, {"op": "generative_up", "name": "c", "width": 0, "kernel_size": 3, "stride": 2})"));
  file("head.json", network(block + R"(, {"op": "head", "name": "head"})"));
  file("head_in_block.json", network(block + R"(, {"op": "head", "name": "a.conv", "classes": 4})"));
  file("head_in_norm.json", network(R"({"op": "head", "name": "a.bn", "classes": 4}, )" + block));
  const std::string saved = R"({"op": "block", "name": "s", "width": 0, "save": "s"}, )",
                    concat = R"(, {"op": "concat", "with": "s"})";
  file("concat_itself.json", network(saved.substr(0, saved.size() - 2) + concat));
  file("concat.json", network(saved + block + concat + concat));
  file("twins.json", network(block + ", " + block));
  file("five.json",
       R"({"name": "five", "ndim": 3, "in_channels": 5, "channels": [4], "layers": [)" + block + "]}");
  file("flat.json",
       R"({"name": "flat", "ndim": 2, "in_channels": 4, "channels": [4], "layers": [)" + block + "]}");
  file("half.json", R"({"name": "half")");
  file("key_twice.json",
       network(R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "kernel_size": 5})"));
  file("nolayers.json", network(""));
  file("unknown_op.json", network(R"({"op": "attention", "name": "a"})"));
  file("unknown_field.json", network(R"({"op": "block", "name": "a", "width": 0, "kernel": 3})"));
  file("width.json", network(R"({"op": "block", "name": "a", "width": 2, "kernel_size": 3})"));
  file("kernel.json", network(R"({"op": "block", "name": "a", "width": 0, "kernel_size": 0})"));
  file("axes.json", network(R"({"op": "block", "name": "a", "width": 0, "kernel_size": [3, 3]})"));
  file("pool.json", network(R"({"op": "max_pool", "name": "a", "kernel_size": 2, "stride": 2})"));
  file("deep.json", std::string(100, '[') + std::string(100, ']'));
  file("array.json", "[]");
  file("blank.jsonl", "\n\n");
  file("palette.json", "[[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]]");
  file("palette_short.json", "[[255, 0, 0]]");
  file("palette_bad.json", "[[256, 0, 0]]");
}

using Tensors = std::map<std::string, FileTensor>;

FileTensor filled(std::vector<int64_t> shape, float value = 1) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return {std::move(shape), std::vector<float>(static_cast<size_t>(count), value)};
}

/// Networks of several inputs and outputs, and voxels for them.
void make_graphs(const Files& file) {
  file("two.json", R"({"name": "two", "ndim": 3, "outputs": ["near", "far"],
    "inputs": [{"name": "points", "channels": 4}, {"name": "more", "channels": 4, "level": "down"}], "layers": [
    {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "output": "near"},
    {"op": "block", "name": "b", "out_channels": 8, "kernel_size": 2, "stride": 2, "output": "down"},
    {"op": "block", "name": "c", "input": "more", "out_channels": 16, "kernel_size": 3, "output": "far"}]})");
  file("twin.json", R"({"name": "twin", "ndim": 3,
    "inputs": [{"name": "points", "channels": 4}, {"name": "more", "channels": 4, "level": "points"}],
    "layers": [{"op": "concat", "with": "more"},
    {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3}]})");
  file("ends.json", R"({"name": "ends", "ndim": 3, "in_channels": 4, "outputs": ["image", "near"],
    "shape": [8, 8, 8], "layers": [
    {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "output": "near"},
    {"op": "birds_eye", "image_axes": [1, 0], "output": "image"}]})");
  // This network takes the weights of tiny.json.
  file("several.json",
       R"({"name": "several", "ndim": 3, "in_channels": 4, "outputs": ["near", "far"], "layers": [
    {"op": "block", "name": "a", "out_channels": 4, "kernel_size": 3, "output": "near"},
    {"op": "max_pool", "name": "b", "kernel_size": 2, "stride": 2, "output": "far"}]})");
  file("v_inside.npy", npy_bytes(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {2, 3}));
}

/// What tiny.json takes.
Tensors tiny_weights(const std::string& prefix = "") {
  Tensors tensors{{prefix + "a.conv.weight", filled({27, 4, 4})}};
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    tensors[prefix + "a.bn." + part] = filled({4});
  return tensors;
}

void make_weights(const std::string& folder, const Files& file) {
  const auto write = [&](const std::string& name, const Tensors& tensors) {
    write_safetensors(folder + "/" + name, tensors);
  };
  const auto with = [](const std::string& name, const FileTensor& tensor) {
    Tensors tensors = tiny_weights();
    tensors[name] = tensor;
    return tensors;
  };
  const auto without = [](const std::string& name) {
    Tensors tensors = tiny_weights();
    tensors.erase(name);
    return tensors;
  };
  write("w.safetensors", tiny_weights());
  write("w_module.safetensors", tiny_weights("module."));
  file("w.pth", torch::checkpoint(tiny_weights(), torch::Form::Zip));
  file("w_old.pth", torch::checkpoint(tiny_weights("module."), torch::Form::Old));
  file("w_two.pth", torch::checkpoint(tiny_weights(), torch::Form::Zip, [](const std::string& dict) {
         return torch::dict({{"epoch", torch::integer(3)}, {"model", dict}, {"net", dict}});
       }));
  write("w_tracked.safetensors", with("a.bn.num_batches_tracked", filled({1})));
  write("w_more.safetensors", with("loss.scale", filled({1})));
  write("w_less.safetensors", without("a.bn.running_var"));
  Tensors typo = without("a.bn.bias");
  typo["a.bn.bais"] = filled({4});
  write("w_typo.safetensors", typo);
  write("w_shape.safetensors", with("a.conv.weight", filled({27, 4, 5})));
  write("w_none.safetensors", {{"x", filled({1})}});
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  write("w_nan.safetensors", with("a.conv.weight", filled({27, 4, 4}, nan)));
  write("w_nan_bias.safetensors", with("a.bn.bias", filled({4}, nan)));
  write("w_nan_mean.safetensors", with("a.bn.running_mean", filled({4}, nan)));
  write("w_infinite_scale.safetensors", with("a.bn.weight", filled({4}, infinity)));
  write("w_negative.safetensors", with("a.bn.running_var", filled({4}, -1)));
  write("w_large.safetensors", with("a.conv.weight", filled({27, 4, 4}, 1e6f)));
  Tensors spconv = without("a.conv.weight"), minkowski = spconv;
  spconv["a.conv.weight"] = filled({4, 3, 3, 3, 4});
  minkowski["a.conv.kernel"] = filled({27, 4, 4});
  write("w_spconv.safetensors", spconv);
  write("w_minkowski.safetensors", minkowski);
  file("names.json", R"({"conv1.": "a.conv."})");
  file("names_twice.json", R"({"conv1.": "a.conv.", "conv1.": "a.bn."})");
  file("w_cut.pth", "\x80\x02}q\x01(X");
  file("w.zip", "PK\x03\x04 archive/data.pkl");
  file("w.npz", "PK\x03\x04 a.npy");
  file("w.h5", "\x89HDF\r\n\x1a\n        ");
  file("w_short.safetensors", contents(folder + "/w.safetensors").substr(0, 400));
  file("w_header.safetensors", packed<uint64_t>(~uint64_t{0} >> 1) + "{}");
  file("w_json.safetensors", packed<uint64_t>(2) + "{]");
  file("w_more_bytes.safetensors", contents(folder + "/w.safetensors") + std::string(8, '\0'));
}

}  // namespace

void make_cli_files(const std::string& folder) {
  const Files file(folder);
  make_good_clouds(file);
  make_bad_clouds(file);
  make_voxels(file);
  make_networks(file);
  make_graphs(file);
  make_weights(folder, file);
  for (const char* name : {"results", "results/below", "results_broken", "results_wrong"})
    std::filesystem::create_directory(folder + "/" + name);
  file("results/bench.json",
       R"({"network": "n", "dtype": "fp32", "clouds": [{"cloud": "c", "wall_ms": {"median": 1.5}}]})");
  file("results/run.JSON", R"({"network": "n", "dtype": "fp32", "layers": [], "stages_ms": {"gemm": 1}})");
  file("results/below/study.json", R"({"study": "s", "claims": [], "notes": [], "plots": [],
    "tables": [{"title": "t", "columns": ["a"], "rows": [[1]]}]})");
  file("results/notes.txt", "no result");
  file("results_broken/b.json", "{\"a\": ");
  file("results_wrong/w.json", R"({"plots": [{"title": "p", "kind": "bar"}]})");
  std::filesystem::create_directory(folder + "/folder.npy");
  std::filesystem::create_directory(folder + "/folder");
  std::filesystem::create_symlink("p.bin", folder + "/link.bin");
  std::filesystem::create_symlink("/dev/zero", folder + "/zero.bin");
  std::filesystem::create_symlink("nowhere.npy", folder + "/dangling.npy");
  for (const char* name : {"full.npy", "full.ply", "full.json"})
    std::filesystem::create_symlink("/dev/full", folder + "/" + name);
  make_odd_cli_files(folder);
}

}  // namespace minuet::tool
