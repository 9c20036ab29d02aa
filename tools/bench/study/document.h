// Builds the result of a study, which has plots with medians and spread, tables, and the paper's claims
// beside what was measured.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "tools/bench/study/bench.h"

namespace minuet::tool {

enum class Verdict { Holds, Fails, NotMeasured };
inline Verdict verdict(bool holds) { return holds ? Verdict::Holds : Verdict::Fails; }

/// Represents a plot under construction. Its series are in the order in which add() and add_value() first
/// name them.
class StudyPlot {
 public:
  StudyPlot(std::string title, std::string kind, llvm::json::Object x, llvm::json::Object y);
  /// Adds a point for the samples, which are in milliseconds: their median, p10, p90, minimum, maximum and
  /// number. `x` is a name in a plot of bars and a number in a plot of lines.
  void add(const std::string& series, llvm::json::Value x, const std::vector<double>& samples);
  /// Adds a point with a number that was computed from medians and has no spread.
  void add_value(const std::string& series, llvm::json::Value x, double value);
  llvm::json::Object json() &&;

 private:
  llvm::json::Array& values_of(const std::string& series);
  std::string title_, kind_;
  llvm::json::Object x_, y_;
  std::vector<std::pair<std::string, llvm::json::Array>> series_;
};

/// Builds a document in the form of tools/minuet/pages/documents.h, which `minuet report` shows.
class StudyDocument {
 public:
  StudyDocument(std::string study, std::string title) : study_(std::move(study)), title_(std::move(title)) {}
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// Records a claim of the paper and what was measured here. If the claim does not hold or was not measured,
  /// `why` is the reason.
  void claim(const std::string& paper, const std::string& here, Verdict verdict, const std::string& why = "");
  void add(StudyPlot plot) { plots_.push_back(std::move(plot).json()); }
  void add_table(llvm::StringRef title, const std::vector<const char*>& columns, llvm::json::Array rows);
  llvm::json::Object json(const StudyBench& bench, double seconds) &&;

 private:
  std::string study_, title_;
  llvm::json::Array notes_, claims_, plots_, tables_;
};

/// Returns a factor as text, for example "1.74 x".
std::string times_text(double factor);
/// Returns the factors' geometric mean and range, for example "on average 1.74 x, from 1.33 x to 2.22 x".
std::string speedups_text(const std::vector<double>& factors);

}  // namespace minuet::tool
