// A long chain in chunks that run side by side.
//
// Let x, y > 0 be rows with the same zeros, and h(x, y) = log max(x / y) - log min(x / y).
//
// Theorem (CERTIFICATES, sections 2 and 8). A message increases no h: x W and y W are mixtures of
// the same rows of W with weights x and y, so that each entry of x W is one of y W times a mean of
// x / y; and a local factor cancels in the ratio. So if each chunk is entered by a message that
// differs from the last one of its neighbour by h_j, all messages of chunk j differ from those of
// an uncut pass by d_j <= d_{j-1} + h_j, its marginals by at most (exp(d_j + d'_j) - 1) / 4.
//
// A chunk guesses the messages that enter it: they run in over a few positions on either side of
// its own part, from rows of ones. Where that guess and what the neighbour has found agree, to
// 2^-46 (float32: 2^-17), nothing is left to be done. Elsewhere the true message is passed on
// through the chunk, in order, and the chunk is done again with it. A cut that is kept adds less to
// the radius of a proof than rounding does on a tenth of a chunk, and to its slack what states may
// have that are next to nothing, which are not compared. A probe of the chain says how far
// messages have to run in, and whether their influence dies at all; where it does not, the chain is
// not cut.
#pragma once

#include "forest/level.h"
#include "forest/path_exact.h"
#include "forest/path_task.h"

namespace VS_NS {

// The rows of a chunk: messages that have run in, and those that it ends with, both ways.
enum class CutRow { kEntryForward, kLeftForward, kEntryBackward, kLeftBackward };

template <class T>
T* cut_row(const vs::PathPass* pass, int64_t stride, int64_t chunk, CutRow which) {
    return static_cast<T*>(pass->cut_rows) + (4 * chunk + static_cast<int64_t>(which)) * stride;
}
template <class D>
typename D::T* cut_row(const vs::PathPass* pass, const D& d, int64_t chunk, CutRow which) {
    return cut_row<typename D::T>(pass, int64_t{d.Kp}, chunk, which);
}

template <class D>
bool chunk_init(Lane<D>& s, D& d, const vs::PathPass* pass, int64_t chunk, vs::Scratch& scratch) {
    const vs::Chains& c = pass->model.arrays;
    const vs::Chunk& part = pass->chunk[chunk];
    if (!lane_init(s, d, c, part.sequence, static_cast<typename D::In*>(pass->marginals),
                   scratch)) {
        return false;
    }
    s.head = part.begin == 0;
    s.tail = part.end == s.n;
    s.n = part.end - part.begin;
    s.begin += part.begin;
    s.edge += part.begin;
    if (s.out) s.out = s.out + part.begin * d.K;
    s.chunk = chunk;
    s.enter = part.first - part.begin;
    s.last = part.last - part.begin;
    s.edges = part.last - part.first - (part.first == 0);
    const vs::ChunkEnd& end = pass->chunk_end[chunk];
    if (end.wrong_f) s.true_f = cut_row(pass, d, chunk - 1, CutRow::kLeftForward);
    if (end.wrong_b) s.true_b = cut_row(pass, d, chunk + 1, CutRow::kLeftBackward);
    if (pass->again) return true;  // neighbours read the rows
    if (s.enter > 0) s.entry_f = cut_row(pass, d, chunk, CutRow::kEntryForward);
    if (s.last < s.n) s.entry_b = cut_row(pass, d, chunk, CutRow::kEntryBackward);
    s.left_f = cut_row(pass, d, chunk, CutRow::kLeftForward);
    return true;
}

template <class D>
void finish_chunk(vs::PathPass* pass, const D& d, const Lane<D>& s) {
    vs::ChunkEnd& end = pass->chunk_end[s.chunk];
    end.status = s.status;
    end.added = s.added;
    end.log_mass = s.status == vs::kOk ? Exact<D>::log_z(d, s) : 0.0;
    if (pass->again) return;
    std::memcpy(cut_row(pass, d, s.chunk, CutRow::kLeftBackward), s.y,
                sizeof(*s.y) * static_cast<size_t>(d.Kp));
    if (s.status == vs::kOk)
        pass->control->done.fetch_add(s.last - s.enter, std::memory_order_relaxed);
}

// Entries up to this may be held at a floor in one of two rows that are compared, and not in the
// other: they are left out.
//
// float64: where marginals are trusted (Floor::kTrust), a state below it has at most least max(b) /
// 1e-110 of the mass, b <= 2 K^4 between two normalisations: 2e-20 K^5 for all such states, at most
// 1e-12 of each cut.
// float32: what floors may have added to the mass is their size times all that the other side
// sends. So states at the floor, or at twice that, have no more. Rows differ by a factor of up to 2
// here, and floors do not. On both sides, both ways, that is 6 times what floors have added: 1e-8
// of a sequence that is cut (PathCall::join), so that all of it is below Floor::kMostAdded.
//
// Proofs have room for both (_certified.py).
template <class D>
typename D::T least_compared(const D& d, bool forward) {
    using T = typename D::T;
    if constexpr (D::kUnit == 1.0) {
        return T(0);
    } else if constexpr (sizeof(T) == 8) {
        const double all = static_cast<double>(d.K) * d.K * d.K * d.K * d.K;
        return std::fmin(1e-130, 5e-123 / all);
    } else {
        return 1.001f * Floor<T>::kMessage * (forward ? 1.0f : static_cast<float>(d.e.reach));
    }
}

// h(x, y), or infinity where the zeros differ; least: see least_compared().
template <class D>
double apart(const typename D::T* x, const typename D::T* y, int K, typename D::T least) {
    using T = typename D::T;
    double low = INFINITY, high = D::kUnit == 1.0 ? -INFINITY : 0.0;
    if constexpr (D::kUnit == 1.0) {
        for (int k = 0; k < K; ++k) {
            if (D::alive(x[k]) != D::alive(y[k])) return INFINITY;
            if (!D::alive(x[k])) continue;
            low = std::fmin(low, x[k] - y[k]);
            high = std::fmax(high, x[k] - y[k]);
        }
        return high > low ? high - low : 0.0;
    } else {
        constexpr bool kEither = sizeof(T) == 4;
        bool some = false;  // left out, of which one may be no floor
        for (int k = 0; k < K; ++k) {
            if ((x[k] > T(0)) != (y[k] > T(0))) return INFINITY;
            const bool low_x = !(x[k] > least), low_y = !(y[k] > least);
            some |= low_x != low_y;
            if (kEither ? low_x || low_y : low_x && low_y) continue;
            const double ratio = static_cast<double>(x[k]) / static_cast<double>(y[k]);
            low = std::fmin(low, ratio);
            high = std::fmax(high, ratio);
        }
        if (some && !(high > 0.0)) return INFINITY;  // nothing was compared
        for (int k = 0; kEither && some && k < K; ++k) {
            // On the scale of the other row a floor is at most this.
            const double floor = static_cast<double>(least);
            const bool over_y = static_cast<double>(x[k]) > floor * std::fmax(1.0, high);
            const bool over_x = static_cast<double>(y[k]) * low > floor * std::fmax(1.0, low);
            if (!(y[k] > least) && over_y) return INFINITY;
            if (!(x[k] > least) && over_x) return INFINITY;
        }
        return high > low ? high / low - 1.0 : 0.0;
    }
}
template <class T>
double agreed(const vs::PathPass* pass) {
    if (pass->agree > 0.0) return pass->agree;
    return sizeof(T) == 8 ? 0x1p-46 : 0x1p-17;
}

// The cuts between chunks and their neighbours: by messages that have run in.
template <class D>
void compare_entries(vs::PathPass* pass, const D& d, bool forward, int64_t first, int64_t last) {
    const CutRow entry = forward ? CutRow::kEntryForward : CutRow::kEntryBackward;
    const CutRow left = forward ? CutRow::kLeftForward : CutRow::kLeftBackward;
    const int64_t from = forward ? -1 : 1;
    const typename D::T least = least_compared(d, forward);
    for (int64_t i = first; i < last; ++i) {
        const double h =
            apart<D>(cut_row(pass, d, i, entry), cut_row(pass, d, i + from, left), d.K, least);
        vs::ChunkEnd& end = pass->chunk_end[i];
        (forward ? end.wrong_f : end.wrong_b) = !(h <= agreed<typename D::T>(pass));
    }
}

// One chunk's messages in one direction, from the true one that enters it.
template <class D>
bool pass_on(vs::PathPass* pass, D& d, Ticker& ticker, int64_t chunk, bool forward,
             vs::Scratch& scratch) {
    Exact<D> engine(d, ticker);
    Lane<D> s;
    if (!chunk_init(s, d, pass, chunk, scratch)) return false;
    NoSink sink;
    s.out = nullptr;
    s.entry_f = s.entry_b = s.left_f = nullptr;
    const CutRow left = forward ? CutRow::kLeftForward : CutRow::kLeftBackward;
    if (forward) {
        if (!engine.group_forward(&s, 1, Role::kPass)) return true;
    } else {
        if (!engine.group_backward(&s, 1, Role::kPass, sink)) return true;
    }
    std::memcpy(cut_row(pass, d, chunk, left), forward ? s.message : s.y,
                sizeof(*s.y) * static_cast<size_t>(d.Kp));
    return true;
}

// How far two messages run, one from a guess, until they agree: at most kFarthest + 1.
// The other has run for kBefore. That is prime: where the best states repeat, guesses that are a
// multiple of the period apart agree with one another, and not with the rest of the chain.
constexpr int64_t kFarthest = 72, kBefore = 23;
template <class D>
int64_t probe_at(vs::PathPass* pass, D& d, Ticker& ticker, int64_t sequence, int64_t at,
                 bool forward, vs::Scratch& scratch) {
    Exact<D> engine(d, ticker);
    NoSink sink;
    Lane<D> s[2];
    for (Lane<D>& lane : s) {
        if (!lane_init(lane, d, pass->model.arrays, sequence, nullptr, scratch)) {
            pass->control->stop.store(2);
            return 0;
        }
        lane.begin += at;
        lane.edge += at;
        lane.n = lane.last = kBefore + kFarthest + 1;
        lane.head = lane.tail = false;
    }
    const auto send = [&](Lane<D>* lanes, int m, int64_t i0, int64_t i1) {
        return forward ? engine.forward(lanes, m, i0, i1, Role::kPass)
                       : engine.backward(lanes, m, i0, i1, Role::kPass, sink);
    };
    if (!send(s, 1, 0, kBefore)) return 0;
    d.ones(forward ? s[1].message : s[1].y);
    const typename D::T least = least_compared(d, forward);
    for (int64_t i = 0; i < kFarthest; ++i) {
        if (!send(s, 2, kBefore + i, kBefore + i + 1)) return 0;
        const double h = forward ? apart<D>(s[0].message, s[1].message, d.K, least)
                                 : apart<D>(s[0].y, s[1].y, d.K, least);
        if (h <= agreed<typename D::T>(pass)) return i + 1;
    }
    return kFarthest + 1;
}

// The most steps(at, forward) in a few places of a sequence, by n alone; more than `farthest`:
// influence does not die.
template <class F>
int64_t most_steps(int64_t n, int64_t farthest, F steps) {
    const int64_t room = n - kBefore - farthest - 1;
    const int64_t probes = n < 16384 ? 2 : n < 65536 ? 4 : 8;
    int64_t most = room > 0 ? 0 : farthest + 1;
    for (int64_t q = 0; q < 2 * probes && most <= farthest; ++q) {
        const int64_t here = steps(room * (2 * (q / 2) + 1) / (2 * probes), q % 2 == 0);
        most = here > most ? here : most;
    }
    return most;
}
// How far messages have to run in, 0: influence does not die.
template <class D>
int64_t probe_chain(vs::PathPass* pass, D& d, Ticker& ticker, int64_t sequence,
                    vs::Scratch& scratch) {
    const vs::Chains& c = pass->model.arrays;
    const int64_t n = c.offset[sequence + 1] - c.offset[sequence];
    const int64_t most = most_steps(n, kFarthest, [&](int64_t at, bool forward) {
        if (!forward && pass->size > 0) return int64_t{0};  // samples need no messages back
        const vs::Scratch::Mark mark = scratch.mark();
        const int64_t steps = probe_at(pass, d, ticker, sequence, at, forward, scratch);
        scratch.rewind(mark);
        return steps;
    });
    if (most > kFarthest) return 0;
    return most <= 12 ? 16 : (4 * most + 23) / 24 * 8;  // 4 / 3 of it
}

// Both of these on the calling thread; answers stand in the pass.
template <class D>
void cut_task(vs::PathPass* pass, const vs::Work& work) {
    vs::Scratch& scratch = pass->scratch[work.worker];
    scratch.reset();
    PathTask<D> own(*pass, scratch, 2);
    D& d = own.d;
    pass->run_in = 0;
    if (!own.ok) return pass->control->stop.store(2);  // what is not compared might be wrong
    Ticker ticker(pass->control, true, d.K, D::kSlower);
    const int64_t which = work.item.first;
    switch (work.verb) {
        case vs::Verb::kPathProbe:
            pass->run_in = probe_chain(pass, d, ticker, which, scratch);
            return;
        case vs::Verb::kPathCompare:
            return compare_entries(pass, d, work.kind == vs::TaskKind::kForward, work.item.first,
                                   work.item.last);
        default:  // kPathPassOn
            if (!pass_on(pass, d, ticker, which, work.kind == vs::TaskKind::kForward, scratch)) {
                pass->control->stop.store(2);
            }
    }
}

}  // namespace VS_NS
