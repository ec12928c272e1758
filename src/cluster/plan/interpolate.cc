#include "cluster/plan/interpolate.h"

#include <algorithm>
#include <cmath>

namespace ffdl::cluster {
namespace {

constexpr size_t kRows = 4;         // three coordinates, and the sum of the weights
constexpr int kPivotsMax = 10'000;  // degenerate points could cycle for ever
constexpr double kTiny = 1e-9;

using Column = std::array<double, kRows>;

// The revised simplex method with an explicit inverse: four rows, as many columns as samples, and
// at first four artificial columns whose cost is beyond that of any real one.
class Simplex {
 public:
  Simplex(const std::vector<Sample>& samples, const std::array<double, 3>& point) {
    // Distances are measured from the point and scaled, so that the right side is (0, 0, 0, 1).
    double largest = 1;
    columns_.reserve(samples.size());
    for (const Sample& sample : samples) {
      Column column{sample.at[0] - point[0], sample.at[1] - point[1], sample.at[2] - point[2], 1};
      for (size_t row = 0; row < 3; ++row) largest = std::max(largest, std::abs(column[row]));
      columns_.push_back(column);
    }
    for (Column& column : columns_) {
      double cost = 0;
      for (size_t row = 0; row < 3; ++row) {
        column[row] /= largest;
        cost += column[row] * column[row];
      }
      costs_.push_back(cost);
    }
    for (size_t row = 0; row < kRows; ++row) {
      inverse_[row][row] = 1;
      basis_[row] = columns_.size() + row;  // artificial
    }
    weights_ = {0, 0, 0, 1};
  }

  // Returns true if the point is inside the hull; then the weights of the tetrahedron's corners are
  // known.
  bool solve() {
    for (int pivot = 0; pivot < kPivotsMax; ++pivot) {
      const auto entering = best_column();
      if (!entering) break;
      replace(*entering);
    }
    for (size_t row = 0; row < kRows; ++row) {
      if (basis_[row] >= columns_.size() && weights_[row] > 1e-7) return false;
    }
    return true;
  }

  std::array<double, 2> value(const std::vector<Sample>& samples) const {
    std::array<double, 2> sum{};
    double total = 0;
    for (size_t row = 0; row < kRows; ++row) {
      if (basis_[row] >= columns_.size()) continue;
      total += weights_[row];
      for (size_t i = 0; i < 2; ++i) sum[i] += weights_[row] * samples[basis_[row]].value[i];
    }
    for (double& one : sum) one /= total;
    return sum;
  }

 private:
  // Artificial columns cost more than any real combination may gain.
  double cost(size_t column) const { return column < columns_.size() ? costs_[column] : 1e4; }

  std::optional<size_t> best_column() const {
    Column price{};  // each row's price in the present basis
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < kRows; ++i) price[i] += cost(basis_[row]) * inverse_[row][i];
    }
    double best = -kTiny;
    std::optional<size_t> entering;
    for (size_t column = 0; column < columns_.size(); ++column) {
      double reduced = costs_[column];
      for (size_t i = 0; i < kRows; ++i) reduced -= price[i] * columns_[column][i];
      if (reduced < best) best = reduced, entering = column;
    }
    return entering;
  }

  void replace(size_t entering) {
    Column direction{};
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < kRows; ++i) direction[row] += inverse_[row][i] * columns_[entering][i];
    }
    // An artificial column at weight 0 must not grow again: any change removes it.
    size_t leaving = kRows;
    double least = 0;
    for (size_t row = 0; row < kRows; ++row) {
      const bool artificial = basis_[row] >= columns_.size();
      const bool at_zero = weights_[row] <= kTiny;
      if (direction[row] <= kTiny && !(artificial && at_zero && direction[row] < -kTiny)) continue;
      const double ratio = at_zero ? 0 : weights_[row] / direction[row];
      if (leaving == kRows || ratio < least) least = ratio, leaving = row;
    }
    if (leaving == kRows) return;
    for (size_t row = 0; row < kRows; ++row) {
      if (row != leaving) weights_[row] = std::max(0.0, weights_[row] - least * direction[row]);
    }
    weights_[leaving] = least;
    for (size_t i = 0; i < kRows; ++i) inverse_[leaving][i] /= direction[leaving];
    for (size_t row = 0; row < kRows; ++row) {
      if (row == leaving) continue;
      for (size_t i = 0; i < kRows; ++i) inverse_[row][i] -= direction[row] * inverse_[leaving][i];
    }
    basis_[leaving] = entering;
  }

  std::vector<Column> columns_;
  std::vector<double> costs_;
  std::array<Column, kRows> inverse_{};
  std::array<size_t, kRows> basis_{};
  Column weights_{};
};

}  // namespace

std::optional<std::array<double, 2>> interpolate(const std::vector<Sample>& samples,
                                                 const std::array<double, 3>& point) {
  Simplex simplex(samples, point);
  if (!simplex.solve()) return std::nullopt;
  return simplex.value(samples);
}

}  // namespace ffdl::cluster
