// A PyTorch checkpoint. The first byte of the input says what the rest is, modulo 3:
//   0  a whole file; the checksums of a zip archive are corrected
//   1  two bytes with the size of the pickle, the pickle, the bytes of the storages "0" and "1"; in the zip
//   form 2  the same in the older form, with storages of four and of eight bytes an element
// In a file that is accepted, no tensor has more elements than the file has bytes, and a tensor is read in
// its own shape only. The file without its last byte is refused.
#include "runtime/weights/checkpoint.h"

#include <cstring>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"
#include "runtime/weights/tensor_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/torch_writer.h"

namespace minuet {
namespace {

using llvm::support::endian::read16le;
using llvm::support::endian::read32le;
using llvm::support::endian::write32le;

/// For every record of the directory that has the bytes of its entry in the file.
std::string with_right_checksums(std::string file) {
  for (std::size_t at = file.find("PK\x01\x02"); at != std::string::npos;
       at = file.find("PK\x01\x02", at + 4)) {
    if (file.size() - at < 46) break;
    const std::uint64_t size = read32le(&file[at + 24]), local = read32le(&file[at + 42]);
    if (local + 30 > file.size()) continue;
    const std::uint64_t begin = local + 30 + read16le(&file[local + 26]) + read16le(&file[local + 28]);
    if (begin + size > file.size()) continue;
    const std::uint32_t checksum =
        llvm::crc32(llvm::arrayRefFromStringRef(llvm::StringRef(file).substr(begin, size)));
    write32le(&file[at + 16], checksum);
    if ((file[local + 6] & 8) == 0) write32le(&file[local + 14], checksum);
  }
  return file;
}

std::string checkpoint_of(llvm::StringRef input) {
  const int form = static_cast<std::uint8_t>(input[0]) % 3;
  input = input.drop_front();
  if (form == 0 || input.size() < 2) return with_right_checksums(input.str());
  const std::size_t size = read16le(input.data());
  input = input.drop_front(2);
  const std::string pickle = input.take_front(size).str(), bytes = input.drop_front(pickle.size()).str();
  const std::size_t first = bytes.size() / 2 / 8 * 8, second = (bytes.size() - first) / 8 * 8;
  const std::vector<torch::Storage> storages{
      {"0", bytes.substr(0, first), static_cast<std::int64_t>(first / 4)},
      {"1", bytes.substr(first, second), static_cast<std::int64_t>(second / 8)}};
  return form == 1 ? torch::zip_form(pickle, storages) : torch::old_form(pickle, storages);
}

void check_tensor(const TensorFile& file, const std::string& name, std::size_t bytes) {
  std::vector<std::int64_t> shape = llvm::cantFail(file.shape(name));
  const std::uint64_t count = llvm::cantFail(checked_count(shape));
  require(count <= bytes);
  llvm::Expected<std::vector<float>> values = file.read(name, shape, /*allow_non_finite=*/true);
  if (values) {
    require(values->size() == count);
  } else {
    llvm::consumeError(values.takeError());
  }
  shape.push_back(1);
  require(llvm::errorToBool(file.read(name, shape).takeError()));
}

}  // namespace

bool fuzz_checkpoint(llvm::StringRef input) {
  if (input.empty()) return false;
  const std::string bytes = checkpoint_of(input);
  if (!is_checkpoint_file(bytes)) return false;
  llvm::Expected<TensorFile> file = TensorFile::open(file_in_memory(bytes));
  if (!file) {
    llvm::consumeError(file.takeError());
    return false;
  }
  const std::vector<std::string> names = file->names();
  require(!names.empty() && file->is_checkpoint());
  for (const std::string& name : names) check_tensor(*file, name, bytes.size());
  const llvm::StringRef cut = llvm::StringRef(bytes).drop_back();
  require(llvm::errorToBool(TensorFile::open(file_in_memory(cut)).takeError()));
  return true;
}

}  // namespace minuet
