// The table of verbs of a class that has them as methods, compiled once per SIMD level.
#pragma once

#include <new>

#include "islands/verbs.h"
#include "rows/rows.h"
#include "simd/level.h"

namespace VS_NS {

// R: constructed of (pass, worker, scratch); `ok` when it has its memory. T: its numbers.
template <class R, class T, class Pass>
struct BoundVerbs {
    static R& at(void* self) { return *static_cast<R*>(self); }
    static void* open(void* pass, int worker, vs::Scratch* scratch) {
        void* memory = scratch->take(sizeof(R));
        if (!memory) return nullptr;
        R* self = new (memory) R(static_cast<Pass*>(pass), worker, *scratch);
        return self->ok ? self : nullptr;
    }
    static bool copies_rows(void* self) { return at(self).copies_rows(); }
    static void locals(void* self, int64_t first, int m, void* rows, double* sums) {
        at(self).locals(first, m, static_cast<T*>(rows), sums);
    }
    static void local_modes(void* self, double zeta, int m, const void* rows, const double* sums,
                            int* modes) {
        const R& of = at(self);
        const int K = of.n_labels();
        const T* row = static_cast<const T*>(rows);
        for (int r = 0; r < m; ++r, row += of.stride()) {
            modes[r] = -1;
            if (!(sums[r] > 0.0 && 1.0 >= zeta * sums[r])) continue;
            const int k = row_find(row, K, R::one());
            modes[r] = k < K ? k : row_argmax(row, K);
        }
    }
    static void whole(void* self, const void* rows) { at(self).whole(static_cast<const T*>(rows)); }
    static void locals_at(void* self, int64_t first, int64_t last, const void* rows) {
        at(self).locals_at(first, last, static_cast<const T*>(rows));
    }
    static void gather(void* self, vs::RowRequest* list, int m) { at(self).gather(list, m); }
    static void exclude(void* self, vs::RowRequest* list, int m) { at(self).exclude(list, m); }
    static bool send(void* self, const vs::RowRequest* list, int m) {
        return at(self).send(list, m);
    }
    static void beliefs(void* self, vs::RowRequest* list, int m) { at(self).beliefs(list, m); }
    static void actuals(void* self, vs::RowRequest* list, int m) { at(self).actuals(list, m); }
    static int tell(void* self, int64_t slot, int64_t other, bool alone) {
        return at(self).tell(slot, other, alone);
    }
    static bool forbids(void* self, int64_t slot, int64_t other) {
        return at(self).forbids(slot, other);
    }
    static int mode(void* self, int64_t slot, const void* row) {
        return at(self).mode(slot, static_cast<const T*>(row));
    }
    static void tally(void* self, int64_t block) { at(self).tally(block); }

    static constexpr vs::IslandVerbs kVerbs = {
        R::kKeepsProducts, open, copies_rows, locals,  local_modes, whole,   locals_at, gather,
        exclude,           send, beliefs,     actuals, tell,        forbids, mode,      tally,
    };
};

}  // namespace VS_NS
