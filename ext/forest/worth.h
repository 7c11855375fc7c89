// Which components are worth their islands: few islands, or such that neighbours contest, cost more
// than an exact pass, which then answers instead.
//
// A variable is a likely island if its mode has a share of zeta by its local factor. It counts if
// some state has that share by its local factor and the rows that likely islands beside it send. A
// component is worth islands where the share of variables that count is large enough for its number
// of labels (docs/islands.md). That is read off the component's own scores, by no order: neither
// threads, nor other components, nor where a tree has its root can show. A sample
// of many variables is read, which their scores choose.
#pragma once

#include <algorithm>
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

// Models of fewer labels have islands whatever they cost, but for long paths: calls are short, and
// "how far do islands get?" is asked of small models.
constexpr int64_t kLeastLabels = 32;
// Those that are longer do not lie beside others, but in stretches of their own up to so many
// labels: with more, the machine of islands on two cores is as fast.
constexpr int64_t kLongestLane = 4096, kMostInStretches = 5;

// May a component be answered exactly instead? A long path of few labels is cut into chunks that
// lie side by side then, and islands cost a multiple of that: it has some where many of its
// variables are likely ones.
constexpr bool may_lack_islands(int64_t n_labels, int64_t size, bool branches) {
    return n_labels >= kLeastLabels || (n_labels > 1 && !branches && size > kLongestLane);
}

// The share of variables that count from which a component is worth islands: a full message saved
// is worth K^2, a variable with islands costs a multiple of K, and where a component branches more,
// since messages into an island are sent anew for each neighbour. Measured, see RESULTS.md.
inline double worth_from(int64_t n_labels, bool branches) {
    return branches ? 0.28 + 20.5 / static_cast<double>(n_labels) : 0.3;
}
// A path with so much more than that of likely islands is worth them, whatever their neighbours
// say.
constexpr double kPlenty = 0.15;
// On a path an island that its neighbours contest takes so much off what counts: it is told to both
// sides, released, and gone around again.
constexpr double kContested = 1.0;

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

// Chains whose local factors are known: sequences of a group. Sets the status of those that are not
// worth their islands to kWithout.
class WorthOfGroup {
  public:
    // For one worker. Throws std::bad_alloc.
    WorthOfGroup(const Request& r, const std::vector<char>& turned);
    // Before anything is known of it: may a sequence be worth its islands? Throws std::bad_alloc.
    bool may_be(int64_t sequence);
    // Slots of `state` are positions from `begin` on, those of sequence tree[q] lie together.
    // `made`: set for those, or null.
    void choose(IslandState& state, const int32_t* tree, int64_t begin, uint8_t* made);

  private:
    const Request* r_;
    const char* turned_;
    std::vector<double> zeros_, space_;
    std::vector<int32_t> one_;   // the component of all: 0
    std::vector<int32_t> mode_;  // of few labels: see Around
};

}  // namespace vs
