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

#include <vector>

#include "forest/request.h"
#include "islands/rules.h"

namespace vs {

// Scores of a variable, (K,) of the model's type, and whether a state has a share of zeta in them:
// the mode where `held` is -1, else that state, roughly, of the sum of three rows. A list has rows
// of one kind.
struct LikelyRow {
    const void *row, *more[2];
    int64_t n_labels;
    double zeta;
    int held;
};

// Models of fewer labels have islands whatever they cost: calls are short, and "how far do islands
// get?" is asked of small models.
constexpr int64_t kLeastLabels = 32;

// The share of variables that count from which a component is worth islands: a full message saved
// is worth K^2, a variable with islands costs a multiple of K, and where a component branches more,
// since messages into an island are sent anew for each neighbour. Measured, see RESULTS.md.
inline double worth_from(int64_t n_labels, bool branches) {
    return branches ? 0.28 + 20.5 / static_cast<double>(n_labels) : 0.3;
}
// A path with so much more than that of likely islands is worth them, whatever their neighbours
// say.
constexpr double kPlenty = 0.15;

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
    // Slots of `state` are positions from `begin` on, those of sequence tree[q] lie together.
    void choose(IslandState& state, const int32_t* tree, int64_t begin);

  private:
    const Request* r_;
    const char* turned_;
    std::vector<double> zeros_, space_;
};

}  // namespace vs
