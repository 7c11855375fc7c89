// Long chains are cut into chunks that run side by side: see path_cut.h.
#pragma once

#include <cstdint>
#include <vector>

#include "core/at.h"
#include "core/problem.h"
#include "forest/together.h"

namespace vs {

// A chunk passes through [begin, end) of its sequence and answers for [first, last); at either side
// the messages run in from a guess, unless the sequence ends there.
struct Chunk {
    int64_t sequence, begin, end, first, last;
};

// The end of a chunk: its part of log Z, and which of its entries turned out to be wrong.
struct ChunkEnd {
    double log_mass = 0.0, added = 0.0;  // the latter by floors
    int32_t status = kOk;
    bool wrong_f = false, wrong_b = false;
    bool left_out = false;  // its sequence is not cut after all
    int64_t into = -1;      // of the best states, the one before its own part
};

// Which chains are cut, and how. Zeros: by (n, K), and by a probe of the chain.
struct CutRule {
    int64_t least = 4096;  // positions of the shortest chain that is cut; negative: none is
    int64_t chunk = 0, run_in = 0;
    double agree = 0.0;  // how far apart messages may be that count as the same
};
CutRule& cut_rule();  // for tests, between calls

// Chains that are cut: order[0, n_cut), and the chunks of each, which follow one another.
struct Cuts {
    std::vector<Chunk> chunk;
    std::vector<int64_t> end;  // (n_cut,) one past the last chunk of each
    int64_t first(size_t which) const { return which > 0 ? end[which - 1] : 0; }
};

// How many chunks from `first` on, before `last`, go side by side, at most `most`: of one sequence,
// the longest first.
inline int64_t chunks_together(const Chunk* chunk, int64_t first, int64_t last, int64_t most) {
    int64_t m = 1;
    while (m < most && first + m < last && chunk[first + m].sequence == chunk[first].sequence) ++m;
    return m;
}

constexpr int64_t kTailRows = 64;  // messages at the end of a chunk that samples keep

// Cuts a sequence into chunks of one length, as (n, K) and `run_in` say, unless it is too short;
// `narrow`: see sequences_together.
enum class CutFor { kMessages, kBest, kSamples };
void cut_chain(const Chains& c, int64_t sequence, int64_t run_in, CutFor what, bool narrow,
               Cuts& cuts);

}  // namespace vs
