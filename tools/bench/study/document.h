// What a study says: plots with medians and spread, tables, and what the paper says beside what was measured.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "tools/bench/study/bench.h"

namespace minuet::tool {

enum class Verdict { Holds, Fails, NotMeasured };
inline Verdict verdict(bool holds) { return holds ? Verdict::Holds : Verdict::Fails; }

/// A plot that grows series by series, in the order in which they are first named.
class StudyPlot {
 public:
  StudyPlot(std::string title, std::string kind, llvm::json::Object x, llvm::json::Object y);
  /// Samples in milliseconds: their median, p10 and p90, least, greatest and number. `x`: a name for bars,
  /// else a number.
  void add(const std::string& series, llvm::json::Value x, const std::vector<double>& samples);
  /// A number that was computed of medians.
  void add_value(const std::string& series, llvm::json::Value x, double value);
  llvm::json::Object json() &&;

 private:
  llvm::json::Array& values_of(const std::string& series);
  std::string title_, kind_;
  llvm::json::Object x_, y_;
  std::vector<std::pair<std::string, llvm::json::Array>> series_;
};

/// Document of documents.h, which `minuet report` shows.
class StudyDocument {
 public:
  StudyDocument(std::string study, std::string title) : study_(std::move(study)), title_(std::move(title)) {}
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// `why`: where the shape does not hold, or was not measured.
  void claim(const std::string& paper, const std::string& here, Verdict verdict, const std::string& why = "");
  void add(StudyPlot plot) { plots_.push_back(std::move(plot).json()); }
  void add_table(llvm::StringRef title, const std::vector<const char*>& columns, llvm::json::Array rows);
  llvm::json::Object json(const StudyBench& bench, double seconds) &&;

 private:
  std::string study_, title_;
  llvm::json::Array notes_, claims_, plots_, tables_;
};

/// "1.74 x"
std::string times_text(double factor);
/// "on average 1.74 x, 1.33 x to 2.22 x"
std::string speedups_text(const std::vector<double>& factors);

}  // namespace minuet::tool
