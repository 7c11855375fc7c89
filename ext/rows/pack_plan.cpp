#include "rows/pack_plan.h"

#include <algorithm>

namespace vs {
namespace {

struct PackJob {
    const PackTable* table;
    const Chains* chains;
    Packing* packing;
    int compute;
    bool wide;
    int64_t rows;
    double* sums;
    uint8_t* findings;
    Scratch* scratch;
};

// Labels up to which a table for messages of logarithms is made: it takes three times the memory of
// one for linear messages.
constexpr int64_t kMostWide = 1024;

void pack_piece(void* context, int64_t piece, int worker) {
    PackJob& j = *static_cast<PackJob*>(context);
    const int64_t first = piece * j.rows;
    const int64_t last = std::min(first + j.rows, j.chains->n_labels);
    if (j.wide) {
        const bool fits = j.table->pack_wide(
            static_cast<const double*>(j.chains->transition), j.chains->n_labels, first, last,
            static_cast<double*>(j.packing->forward), static_cast<double*>(j.packing->backward));
        std::fill(j.findings + first, j.findings + last, uint8_t{!fits});
        return;
    }
    j.table->pack(j.compute, j.chains, j.packing, first, last, j.sums, j.findings,
                  &j.scratch[worker]);
}

}  // namespace

bool pack_table(const PackTable& table, const PoolApi& pool, const Chains& c, int arithmetic,
                bool rows, int threads, Scratch& workspace, Scratch* temporary, Packing* out,
                Control* control, bool depth) {
    *out = Packing();
    out->depth = depth;
    // Nothing is packed per edge; bounds that hold for any matrix with entries in [0, 1].
    out->reach = static_cast<double>(c.n_labels);
    out->floored = true;
    const bool wide = is_log(arithmetic);
    if (c.per_edge || (wide && (depth || c.n_labels > kMostWide))) return true;
    const int compute = is_single(arithmetic) ? kFloat32 : kFloat64;
    const int64_t bytes = compute == kFloat32 ? 4 : 8;
    int64_t stride, size;
    table.layout(compute, c.n_labels, &stride, &size);
    if (wide) size = 3 * c.n_labels * stride;
    Scratch& s = workspace;
    out->forward = s.take(size * bytes + 64);
    out->backward = s.take(size * bytes + 64);
    if (rows && !wide) {
        out->rows = s.take(size * bytes);
        out->columns = s.take(size * bytes);
    }
    double* sums = s.array<double>(c.n_labels);
    uint8_t* findings = s.array<uint8_t>(c.n_labels);
    if (s.failed) return false;
    if (!wide) out->shift = table.max_finite(c.dtype, c.transition, c.n_labels * c.n_labels);
    PackJob job{&table, &c, out, compute, wide, 64, sums, findings, temporary};
    while (job.rows * c.n_labels < 16384) job.rows *= 2;
    const Plan plan("pack", (c.n_labels + job.rows - 1) / job.rows);
    pool.run_plan(plan, pack_piece, &job, threads, control);
    if (wide) {
        const bool fits =
            std::all_of(findings, findings + c.n_labels, [](uint8_t f) { return !f; });
        if (!fits) out->forward = out->backward = nullptr;
        return true;
    }
    uint8_t found = 0;
    for (int64_t l = 0; l < c.n_labels; ++l) found |= findings[l];
    if (found & Packing::kNotPacked) return false;
    out->reach = *std::max_element(sums, sums + c.n_labels);
    out->floored = found & Packing::kFloored;
    out->positive = !(found & Packing::kForbids);
    return true;
}

}  // namespace vs
