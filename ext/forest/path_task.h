// What a task on chains begins with: its input, packed tables, an arithmetic, and rows for it.
#pragma once

#include <cstring>

#include "core/problem.h"
#include "forest/level.h"
#include "rows/input.h"
#include "rows/pack.h"

namespace VS_NS {

template <class D>
struct PathTask {
    using T = typename D::T;

    // `n_rows`, at least 2: rows of 0, of which the arithmetic takes two.
    PathTask(const vs::PathPass& pass, vs::Scratch& scratch, int n_rows)
        : in(pass.model.arrays),
          packed(packed_view<T>(*pass.packing)),
          rows(scratch.array<T>(n_rows * static_cast<int64_t>(Tiling<T>(in.c.n_labels).Kp))),
          d(in, packed, rows),
          ok(rows != nullptr && d.open(scratch)) {
        if (rows) std::memset(rows, 0, sizeof(T) * static_cast<size_t>(n_rows * d.Kp));
    }
    PathTask(const PathTask&) = delete;  // the arithmetic refers to the others
    PathTask& operator=(const PathTask&) = delete;

    const Input<typename D::In> in;
    const Packed<T> packed;
    T* const rows;  // (n_rows, Kp)
    D d;
    const bool ok;  // false: no memory
};

}  // namespace VS_NS
