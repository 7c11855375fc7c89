// The table of verbs of a class that has them as methods, compiled once per SIMD level.
#pragma once

#include <new>

#include "islands/verbs.h"
#include "simd/level.h"

namespace VS_NS {

// R: constructed of (pass, worker, scratch); `ok` when it has its memory. T: its numbers.
template <class R, class T, class Pass>
struct BoundVerbs {
    static R& at(void* bench) { return *static_cast<R*>(bench); }
    static void* open(void* pass, int worker, vs::Scratch* scratch) {
        void* memory = scratch->take(sizeof(R));
        if (!memory) return nullptr;
        R* bench = new (memory) R(static_cast<Pass*>(pass), worker, *scratch);
        return bench->ok ? bench : nullptr;
    }
    static bool copies_rows(void* bench) { return at(bench).copies_rows(); }
    static void locals(void* bench, int64_t first, int m, void* rows, double* sums) {
        at(bench).locals(first, m, static_cast<T*>(rows), sums);
    }
    static void locals_at(void* bench, int64_t first, int64_t last, const void* rows) {
        at(bench).locals_at(first, last, static_cast<const T*>(rows));
    }
    static void gather(void* bench, vs::RowRequest* list, int m) { at(bench).gather(list, m); }
    static void exclude(void* bench, vs::RowRequest* list, int m) { at(bench).exclude(list, m); }
    static bool send(void* bench, const vs::RowRequest* list, int m) {
        return at(bench).send(list, m);
    }
    static void beliefs(void* bench, vs::RowRequest* list, int m) { at(bench).beliefs(list, m); }
    static void actuals(void* bench, vs::RowRequest* list, int m) { at(bench).actuals(list, m); }
    static int tell(void* bench, int64_t slot) { return at(bench).tell(slot); }
    static bool forbids(void* bench, int64_t slot, int64_t other) {
        return at(bench).forbids(slot, other);
    }
    static int mode(void* bench, int64_t slot, const void* row) {
        return at(bench).mode(slot, static_cast<const T*>(row));
    }
    static void tally(void* bench, int64_t block) { at(bench).tally(block); }

    static constexpr vs::IslandVerbs kVerbs = {
        R::kKeepsProducts, open,    copies_rows, locals,  locals_at, gather, exclude, send,
        beliefs,           actuals, tell,        forbids, mode,      tally,
    };
};

}  // namespace VS_NS
