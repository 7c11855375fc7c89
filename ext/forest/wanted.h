// What a pass over chains that lie side by side keeps, and makes beside marginals.
#pragma once

#include "forest/compare.h"
#include "forest/path_edges.h"

namespace VS_NS {

// What stays of each position: nothing but what the next one needs; forward messages; those and
// local factors, for a pass back.
enum class Keep { kNothing, kForward, kBoth };

// That, and what comes of the way back beside marginals; null: nothing.
template <class D>
struct Wanted {
    Keep keep;
    bool proved = false;  // forward messages are known to be right, whatever floors there are
    const vs::Comparison* compared = nullptr;  // with what marginals are, which are not kept then
    const EdgeSink<D>* edges = nullptr;        // keeps what answers about edges are made of
    double* energies = nullptr;                // as those of Request, made with `depth`
    const Depth<D>* depth = nullptr;           // null: of edges that have a table each
};

}  // namespace VS_NS
