// Which components are worth their islands: few islands, or such that neighbours contest, cost more
// than an exact pass, which then answers instead.
//
// A variable is a likely island if its mode has a share of zeta by its local factor. It counts if
// some state has that share by its local factor and the rows that likely islands beside it send. A
// tree is worth islands where the share of variables that count is large enough for its number of
// labels, a path where likely islands are many and hardly contested (docs/islands.md). That is read off the component's own scores, by no order: neither
// threads, nor other components, nor where a tree has its root can show. A sample
// of many variables is read, which their scores choose.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "forest/request.h"
#include "islands/rules.h"

namespace vs {

// Scores of a variable, (K,) of the model's type, and whether a state has a share of zeta in them:
// the mode where `held` is -1, else that state of the sum of three rows. A list has rows of one
// kind.
struct LikelyRow {
    const void *row, *more[2];
    int held;
};
// The share, roughly, and what is known of a mode without it: where its score is ahead of the next
// by less than `never` it has not that share, by `always` or more it has.
struct LikelyRule {
    int64_t n_labels;
    double zeta, never, always;
    bool exactly;  // a mode is what the machine of islands takes for one
};

// Models of fewer labels have islands whatever they cost: calls are short, and "how far do islands
// get?" is asked of small models.
constexpr int64_t kLeastLabels = 32;

// The share of variables that count from which a tree that branches is worth islands: a full message
// saved is worth K^2, a variable with islands costs a multiple of K, and where a component branches
// more, since messages into an island are sent anew for each neighbour. Measured, see RESULTS.md.
inline double worth_from(int64_t n_labels) {
    return 0.28 + 20.5 / static_cast<double>(n_labels);
}
// What is known of a path: of the variables that were asked, how many are likely islands, which of
// these the likely islands beside them contest, and how far they back the others.
struct PathCount {
    int64_t asked = 0, local = 0, contested = 0;
    int64_t backed = 0;  // in parts of 1 / kParts, whose sums know no order
    static constexpr double kParts = 1024.0;
    // `ahead`: see Around::is_contested.
    void back(double ahead) {
        constexpr double kMost = 5.0;
        backed += std::llround(kParts * std::min(std::max(ahead, -kMost), kMost));
    }
    // An island that is contested takes more off than itself: it is told to both sides, released,
    // and gone around again. Where neighbours back one another the variables between them will be
    // islands as well, where they do not, none. Measured, see RESULTS.md.
    bool is_worth(int64_t n_labels) const {
        const double each = 1.0 + 50.0 / static_cast<double>(n_labels);
        const double count = static_cast<double>(local) - each * static_cast<double>(contested) +
                             0.1 / kParts * static_cast<double>(backed);
        return asked > 0 && count >= 0.2 * static_cast<double>(asked);
    }
};

// At a glance: a few variables of a path, spread evenly, are asked first, and three times as many
// where these leave open whether it has likely islands at all.
class Glance {
  public:
    explicit Glance(int64_t length) : n_(length), few_(std::clamp(length / 8, kFew, kMost) / 2) {}
    // f(position): `more`: of the other two thirds. Alike from both ends.
    template <class F>
    void places(bool more, F f) const {
        const int64_t parts = 2 * few_ * (n_ < 6 * few_ ? 1 : 3);
        if (n_ < 2 * few_ || (more && n_ < 6 * few_)) {
            for (int64_t i = 0; i < n_; ++i) {
                if (!more || !is_early(i)) f(i);
            }
            return;
        }
        for (int64_t t = 0; t < parts / 2; ++t) {
            if (parts > 2 * few_ && ((2 * t + 1) % 3 == 0) == more) continue;
            const int64_t i = (2 * t + 1) * n_ / (2 * parts);
            f(i);
            f(n_ - 1 - i);
        }
    }
    static bool is_enough(int64_t found, int64_t asked) { return 10 * found >= 3 * asked; }
    static bool is_nothing(int64_t found, int64_t asked) { return 5 * found < asked; }

  private:
    static constexpr int64_t kFew = 4, kMost = 16;
    bool is_early(int64_t i) const {
        bool early = n_ < 2 * few_;
        for (int64_t t = 0; t < few_ && !early; ++t) {
            const int64_t at = (2 * t + 1) * n_ / (4 * few_);
            early = i == at || i == n_ - 1 - at;
        }
        return early;
    }
    int64_t n_, few_;
};

// The tables, transposed, where the model is large enough for that to pay; else nothing.
std::vector<char> turned_tables(const ForestModel& m);

// (last - first,) of components [first, last), of trees all: 1: islands; 0: an exact pass. On the
// pool. Throws std::bad_alloc.
std::vector<uint8_t> worth_islands(const Request& r, const std::vector<char>& turned, int64_t first,
                                   int64_t last, Control& control);

// Logarithms of the means of rows and columns of tables, which are made when they are asked for.
class LogMeans {
  public:
    explicit LogMeans(const ForestModel& m)
        : column_(at(m.arrays.n_labels)), tables_(m.layout ? m.n_tables : 1) {
        const int64_t rows = tables_ * m.arrays.n_labels;
        if (rows <= m.arrays.n_positions) known_.assign(2 * at(rows), std::nan(""));
    }
    void* space() { return column_.data(); }
    // make(): of row (column) x of a table of K.
    template <class F>
    double of(int64_t table, int64_t x, bool column, int64_t K, F make) {
        if (known_.empty()) return make();
        double& known = known_[at(((column ? tables_ : 0) + table) * K + x)];
        if (std::isnan(known)) known = make();
        return known;
    }

  private:
    std::vector<double> column_, known_;
    int64_t tables_;
};

// Chains whose local factors are known: sequences of a group. Sets the status of those that are not
// worth their islands to kWithout.
class WorthOfGroup {
  public:
    // For one worker. Throws std::bad_alloc.
    WorthOfGroup(const Request& r, const std::vector<char>& turned);
    // Before anything is known of it: may a sequence be worth its islands? `next`: asked after it, or
    // -1. Throws std::bad_alloc.
    bool may_be(int64_t sequence, int64_t next);
    // Slots of `state` are positions from `begin` on, those of sequence tree[q] lie together.
    // `made`: set for those, or null.
    void choose(IslandState& state, const int32_t* tree, int64_t begin, uint8_t* made);

  private:
    const Request* r_;
    const char* turned_;
    std::vector<double> space_;
    std::vector<int32_t> one_;  // the component of all: 0
    LogMeans means_;
};

}  // namespace vs
