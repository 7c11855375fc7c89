#include "forest/cut.h"

#include <algorithm>

#include "forest/plan.h"
#include "forest/together.h"

namespace vs {

CutRule& cut_rule() {
    static CutRule rule;
    return rule;
}

namespace {

// A chunk is so many times as long as its entry: the fewer the more groups there are to share.
constexpr int64_t kLeastTimes = 12, kLeastTimesOneWay = 24, kMostTimes = 48, kGroups = 64;
constexpr int64_t kBestGroups = 48;  // a multiple of many numbers of cores

int64_t chunks_of_messages(const Chains& c, int64_t own, int64_t run_in, bool narrow,
                           bool samples) {
    // Chunks whose messages lie side by side go faster, unless entries take most of them.
    const int64_t together = sequences_together(c, narrow);
    const int64_t number = narrow || c.dtype == kFloat32 ? 4 : 8;
    const int64_t row = (c.n_labels + 7) / 8 * 8 * number;
    const int64_t fits = kChunkBytes / row - 2 * run_in, least = 4 * run_in;
    const int64_t times = samples ? kLeastTimesOneWay : kLeastTimes;
    int64_t wanted =
        std::clamp(own / kGroups, times * run_in * together, kMostTimes * run_in * together);
    if (fits >= least) wanted = std::min(wanted, fits * together);
    // A group of few labels to draw from takes no longer than another thread needs to begin.
    const int64_t groups = samples && c.n_labels <= kFewLabels ? 1 : 2;
    const int64_t parts = std::max(groups, (own + wanted - 1) / wanted);
    // More than a few are as many as many numbers of cores can share.
    return together * (parts > kGroups ? (parts + 15) / 16 * 16 : parts);
}

// Entries and the way back into a chunk are passed through one way.
int64_t chunks_of_best(const Chains& c, int64_t own, int64_t run_in) {
    const int64_t together = best_together(c);
    const int64_t wanted = std::max(own / (kBestGroups * together), kLeastTimesOneWay * run_in);
    const int64_t groups = together > 4 ? 1 : 2;
    return together * std::max(groups, own / (together * wanted));
}

// `count` chunks of one length, but for the last, with `run_in` before and `run_out` behind.
void cut_evenly(int64_t n, int64_t sequence, int64_t run_in, int64_t run_out, int64_t count,
                Cuts& cuts) {
    const int64_t own = n - run_in;
    if (count < 2 || own < 2) return;
    const int64_t step = (own + count - 1) / count;
    count = (own + step - 1) / step;
    for (int64_t j = 0; j < count; ++j) {
        const int64_t begin = j * step;
        cuts.chunk.push_back({sequence, begin, std::min(n, begin + step + run_in + run_out),
                              j > 0 ? begin + run_in : 0,
                              j + 1 < count ? begin + step + run_in : n});
    }
    cuts.end.push_back(static_cast<int64_t>(cuts.chunk.size()));
}

}  // namespace

void cut_chain(const Chains& c, int64_t sequence, int64_t run_in, CutFor what, bool narrow,
               Cuts& cuts) {
    const int64_t n = length(c, sequence), own = n - run_in;
    const bool drawn = what == CutFor::kSamples;
    const int64_t count = cut_rule().chunk > 0 ? own / cut_rule().chunk
                          : what == CutFor::kBest
                              ? chunks_of_best(c, own, run_in)
                              : chunks_of_messages(c, own, run_in, narrow, drawn);
    // Ways back join sooner than rows agree. States that are drawn and have not met are drawn again
    // until they do.
    constexpr int64_t kMostDrawn = 16;
    int64_t run_out = what == CutFor::kMessages ? run_in : (run_in + 1) / 2;
    if (drawn) run_out = std::min(run_out, kMostDrawn);
    cut_evenly(n, sequence, run_in, run_out, count, cuts);
}

}  // namespace vs
