// Packs a table of transitions on the pool.
#pragma once

#include "rows/pack_table.h"
#include "pool/pool.h"

namespace vs {

// exp(transition) into `workspace`, which is not reset; false when memory is exhausted. `depth`:
// times its distance from the largest (Packing::depth).
bool pack_table(const PackTable& table, const PoolApi& pool, const Chains& c, int arithmetic,
                bool rows, int threads, Scratch& workspace, Scratch* temporary, Packing* out,
                Control* control, bool depth = false);

}  // namespace vs
