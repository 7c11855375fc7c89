// How many sequences an exact pass takes side by side. No bit depends on it.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace vs {

constexpr int kMostTogether = 32;
constexpr int64_t kFewLabels = 24;
// Labels up to which a sequence goes in each lane of the widest vector (path_abreast.h).
constexpr int64_t kAbreast32 = 112, kAbreast64 = 56;
// The same where each edge has a table.
constexpr int64_t kAbreastEdges = 24;
// The same of best scores (best_abreast.h).
constexpr int64_t kBestAbreast32 = 56, kBestAbreast64 = 28;

// Messages of a lane that take no more lie beside those of the others; longer ones apart.
constexpr int64_t kStoredBytes = int64_t{256} << 10;
// And those of all lanes no more than this, where rows of marginals can hold them instead.
constexpr int64_t kStoredTogether = int64_t{4} << 20;
// The same for chunks, which are longer for less of them to run in.
constexpr int64_t kChunkBytes = int64_t{512} << 10;

// Few while a table stays near the core, more where each reading of it costs more than a product.
// Labels alone decide, so that no thread shows. `narrow`: float32 computes with scores in float64.
inline int64_t sequences_together(const Chains& c, bool narrow) {
    const bool single = narrow || c.dtype == kFloat32;
    if (c.sparse) return 16;  // a cache line or two of numbers of one label
    const int64_t abreast = c.per_edge ? kAbreastEdges : single ? kAbreast32 : kAbreast64;
    if (c.n_labels <= abreast) return single ? 16 : 8;
    const int64_t bytes = 8 * c.n_labels * c.n_labels;
    if (c.per_edge) return 2;
    if (bytes <= int64_t{1} << 20) return 4;
    return bytes <= int64_t{8} << 20 ? 16 : kMostTogether;
}

// The same of passes to the best states.
inline int64_t best_together(const Chains& c) {
    const bool single = c.dtype == kFloat32;
    if (c.sparse || (c.per_edge && c.n_labels > kAbreastEdges)) return 4;
    if (c.per_edge || c.n_labels <= (single ? kBestAbreast32 : kBestAbreast64))
        return single ? 16 : 8;
    return c.n_labels * c.n_labels * (single ? 4 : 8) <= int64_t{1} << 20 ? 4 : 16;
}

}  // namespace vs
