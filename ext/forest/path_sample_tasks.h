// Samples of sequences, and of chunks of long ones: forward messages, then states from the last one
// back.
//
// The messages of a chunk run in from a guess, as those of marginals do (path_cut.h). Its states
// run in behind its own part, from one that is drawn by the message there alone. A state is a
// function of the one after it and of the uniform of its position, which both chunks read: paths
// that have met stay together. So the states of a chunk are those that follow from its neighbour's
// where both have drawn the same right behind its own part. Elsewhere they are drawn again, in
// order, until they meet those that are there. Messages at the end of a chunk are kept for that;
// where states have not met so far, and where the true message is another, the whole chunk is done
// again.
#pragma once

#include "forest/path_cut.h"
#include "forest/path_draw.h"
#include "rows/pack.h"

namespace VS_NS {

// Whether forward messages along these edges know their own error.
template <class D>
bool know_alone(const D& d, int64_t edge, int64_t last_edge) {
    if constexpr (D::kUnit == 1.0 || sizeof(typename D::T) == 8) {
        return true;
    } else {
        if (!d.in.c.per_edge) return !d.floors();
        const int all = d.K * d.K;
        const auto held = [&](int64_t e) {
            return findings_of<typename D::T>(d.in_edge(e), all, d.edge_max(e)) &
                   vs::Packing::kFloored;
        };
        while (edge < last_edge && !held(edge)) ++edge;
        return edge == last_edge;
    }
}

// Where the states of a lane go: those before `own` into the answer, others, which run in, into
// `into`, of which the last one stays. Those before `stored` have been drawn there.
struct DrawnLane {
    int64_t begin, n, enter, own, stored;
    int64_t* into;

    // The states of samples after position i, `step` apart; null: there are none.
    const int64_t* after(int64_t* states, int64_t positions, int64_t i, int64_t* step) const {
        *step = i + 1 < stored ? positions : 1;
        return i + 1 < stored ? states + begin + i + 1 : i + 1 < n ? into : nullptr;
    }
    int64_t* at(int64_t* states, int64_t positions, int64_t i, int64_t* step) const {
        *step = i < own ? positions : 1;
        return i < own ? states + begin + i : into;
    }
};

template <class D>
class SampleTasks {
  public:
    using T = typename D::T;

    // (3, Kp) and draw_size(Kp): temporary.
    SampleTasks(vs::PathPass* pass, D& d, int worker, T* rows, double* weight)
        : pass_(pass),
          d_(d),
          c_(pass->model.arrays),
          ticker_(pass->control, worker == 0, c_.n_labels, D::kSlower),
          engine_(d, ticker_),
          scratch_(pass->scratch[worker]),
          column_(rows + 2 * d.Kp),
          weight_(weight) {}

    void task(const vs::Work& work) {
        const int64_t first = work.item.first, last = work.item.last;
        switch (work.verb) {
            case vs::Verb::kPathSample:
                chunks_ = work.kind == vs::TaskKind::kChunks;
                return groups(first, last);
            case vs::Verb::kPathSampleCompare:
                if (work.kind == vs::TaskKind::kForward) {
                    return compare_entries(pass_, d_, true, first, last);
                }
                for (int64_t j = first; j < last; ++j) compare_states(j);
                return;
            default:  // kPathSampleAgain
                return again(first, work.kind == vs::TaskKind::kBackward);
        }
    }

  private:
    void no_memory() { pass_->control->stop.store(2); }

    void groups(int64_t first, int64_t last) {
        const int64_t together = chunks_ ? vs::sequences_together(c_, false) : last - first;
        for (int64_t i = first, next; i < last; i = next) {
            next = chunks_ ? i + vs::chunks_together(pass_->chunk, i, last, together) : last;
            const vs::Scratch::Mark mark = scratch_.mark();
            int64_t item[vs::kMostTogether];
            int m = static_cast<int>(next - i);
            for (int r = 0; r < m; ++r) item[r] = i + r;
            if (chunks_ && in_vain(i)) {
                for (int r = 0; r < m; ++r) pass_->chunk_end[i + r].status = vs::kWiden;
                continue;
            }
            const int known = know_first(item, m);
            if (!draw_some(item, known, true) || !draw_some(item + known, m - known, false)) return;
            scratch_.rewind(mark);
        }
    }

    bool knows(int64_t item) const {
        if (pass_->proved) return true;
        if (chunks_) {
            const vs::Chunk& part = pass_->chunk[item];
            const int64_t edge = c_.edge[part.sequence];
            return know_alone(d_, edge + part.begin, edge + part.end - 1);
        }
        const int64_t s = pass_->order[item];
        return know_alone(d_, c_.edge[s], c_.edge[s + 1]);
    }
    // Are floors nothing beside the last forward message?
    bool ends_well(const Lane<D>& s) const { return pass_->proved || s.log_end > D::kLeastEnd; }
    // Moves items whose forward messages know their own error to the front; returns how many.
    int know_first(int64_t* item, int m) const {
        int64_t other[vs::kMostTogether];
        int known = 0, rest = 0;
        for (int r = 0; r < m; ++r) (knows(item[r]) ? item[known++] : other[rest++]) = item[r];
        for (int r = 0; r < rest; ++r) item[known + r] = other[r];
        return known;
    }
    // `alone`: forward messages know their own error. False: stopped.
    bool draw_some(int64_t* item, int m, bool alone) {
        alone_ = alone;
        if constexpr (kDrawAbreast<D>) {
            if (alone && m > 0) m = abreast(item, m, Keep::kForward);
            if (!chunks_ && m > 0) m = abreast(item, m, Keep::kBoth);
        }
        return m == 0 || (m > 0 && one_by_one(item, m, false));
    }

    bool in_vain(int64_t chunk) const {
        return pass_->in_vain->load(std::memory_order_relaxed) == pass_->chunk[chunk].sequence;
    }
    // A lane, and where its states go; `to_known`: to the state behind a chunk's own part.
    bool init(Lane<D>& s, DrawnLane& to, int64_t item, bool to_known) {
        if (!chunks_) {
            const int64_t which = pass_->order[item];
            if (!lane_init(s, d_, c_, which, nullptr, scratch_)) return false;
            to = {s.begin, s.n, 0, s.n, s.n, nullptr};
            return true;
        }
        if (!chunk_init(s, d_, pass_, item, scratch_)) return false;
        to = {s.begin, s.n, s.enter, s.last, s.last, pass_->into + item * pass_->size};
        if (to_known) {
            to.n = s.n = s.last;
            to.stored = s.last + 1;
            s.tail = false;
        }
        s.last = s.n;  // messages go on to where states come from
        s.left_f = nullptr;
        return true;
    }
    // How a lane has ended, with the message at the end of a chunk's own part.
    void finish(const Lane<D>& s, const DrawnLane& to, const T* left) {
        if (!chunks_) return Exact<D>::finish(pass_, d_, s);
        vs::ChunkEnd& end = pass_->chunk_end[s.chunk];
        const bool counted = end.status == vs::kOk && again_;
        end.status = s.status;
        if (s.status != vs::kOk) {
            pass_->in_vain->store(s.sequence, std::memory_order_relaxed);
            return;
        }
        std::memcpy(cut_row(pass_, d_, s.chunk, CutRow::kLeftForward), left,
                    sizeof(T) * static_cast<size_t>(d_.Kp));
        if (!counted) {
            pass_->control->done.fetch_add(to.own - to.enter, std::memory_order_relaxed);
        }
    }

    // Draws from lanes side by side as far as that goes, from forward messages (kForward), or from
    // those of passes both ways: items of the others move to the front. Returns how many, or -1:
    // stopped.
    int abreast(int64_t* item, int m, Keep keep) {
        constexpr int N = Abreast<D>::N;
        if (!Abreast<D>::serves(d_)) return m;
        int left = 0;
        for (int first = 0; first < m; first += N) {
            const int size = m - first < N ? m - first : N;
            const vs::Scratch::Mark mark = scratch_.mark();
            bool well[N] = {};
            if (!beside(item + first, size, keep, well)) return -1;
            for (int r = first; r < first + size; ++r) {
                if (!well[r - first]) item[left++] = item[r];
            }
            scratch_.rewind(mark);
        }
        return left;
    }
    // Of at most N items; `well`: those that are done. False: stopped.
    bool beside(const int64_t* item, int m, Keep keep, bool* well) {
        constexpr int N = Abreast<D>::N;
        Lane<D> lanes[N];
        DrawnLane to[N];
        int64_t all = 0;
        int longest = 0;
        for (int r = 0; r < m; ++r) {
            if (!init(lanes[r], to[r], item[r], false)) return true;
            if (to[r].n > to[longest].n) longest = r;
            all += to[r].n;
        }
        // Lanes that are none, or that have ended, work for nothing.
        if (2 * m <= N || to[longest].n * N > 2 * all) return true;
        const int64_t row = d_.Kp * static_cast<int64_t>(sizeof(T));
        if (keep == Keep::kBoth && to[longest].n * row > vs::kStoredBytes) return true;
        Abreast<D> group;
        DrawsAbreast<D> draws;
        if (!draws.open(d_, DrawsBy::kColumns, scratch_) ||
            !group.open(lanes, m, Wanted<D>{keep, pass_->proved}, d_, scratch_) ||
            (c_.per_edge && !group.kept_table(0))) {
            return true;
        }
        if (!group.forward(engine_, d_, ticker_)) return false;
        if (keep == Keep::kBoth && !group.backward(d_, ticker_)) return false;
        for (int r = 0; r < m; ++r) {
            if (keep == Keep::kBoth) require_little_added(lanes[r]);
            well[r] = group.well(r) && lanes[r].status == vs::kOk &&
                      (keep == Keep::kBoth || ends_well(lanes[r]));
        }
        if (!draw_beside(group, draws, to, well, m, longest)) return false;
        if (chunks_ && !keep_tails(group, to, item, well, m)) {
            no_memory();
            return false;
        }
        T* const left = column_;
        d_.clear(left);
        for (int r = 0; r < m; ++r) {
            if (!well[r]) continue;
            const T* const a = group.kept(to[r].own - 1);
            for (int k = 0; chunks_ && k < d_.K; ++k) left[k] = a[k * N + r];
            finish(lanes[r], to[r], left);
        }
        return true;
    }
    static int64_t tail_rows(int64_t own) { return own < vs::kTailRows ? own : vs::kTailRows; }
    // The last so many messages of a chunk's own part.
    T* tail(int64_t chunk, int64_t rows) const {
        return static_cast<T*>(pass_->tails) + ((chunk + 1) * vs::kTailRows - rows) * d_.K;
    }
    // Messages at the ends of chunks; those of a sequence's last one are not needed. False: no
    // memory.
    bool keep_tails(const Abreast<D>& group, const DrawnLane* to, const int64_t* item,
                    const bool* well, int m) {
        constexpr int N = Abreast<D>::N;
        const int64_t own = to[0].own, rows = tail_rows(own);
        T* const nowhere = scratch_.array<T>(rows * d_.K);
        if (!nowhere) return false;
        T* rows_of[N];
        for (int r = 0; r < N; ++r) {
            rows_of[r] = r < m && well[r] && to[r].own == own ? tail(item[r], rows) : nowhere;
        }
        unweave<T, N>(group.kept(own - rows), rows * d_.K, rows_of);
        return true;
    }
    // Draws from the messages of a group: between positions at which no lane begins or ends.
    bool draw_beside(const Abreast<D>& group, DrawsAbreast<D>& draws, const DrawnLane* to,
                     const bool* well, int m, int longest) {
        constexpr int N = Abreast<D>::N;
        const int64_t n = c_.n_positions, size = pass_->size;
        int* const next = scratch_.array<int>(N * size);  // the states of samples in each lane
        if (!next) {
            no_memory();
            return false;
        }
        const double* uniforms[N];
        int64_t nowhere, *states[N], mask[N];
        for (int64_t x = 0; x < N * size; ++x) next[x] = -1;  // lanes that have not begun, too
        int64_t bottom = to[longest].enter;
        for (int r = 0; r < m; ++r) bottom = to[r].enter < bottom ? to[r].enter : bottom;
        for (int64_t top = to[longest].n; top > bottom;) {
            int64_t end = bottom;
            for (int r = 0; r < m; ++r) {
                for (const int64_t at : {to[r].n, to[r].own, to[r].enter}) {
                    if (at < top && at > end) end = at;
                }
            }
            for (int r = 0; r < N; ++r) {
                const DrawnLane& s = to[r < m ? r : longest];
                const bool here = r < m && top <= s.n && s.enter < top;
                for (int64_t x = 0; x < size && top == s.n; ++x) next[x * N + r] = -1;
                const bool stored = here && well[r] && top <= s.own;
                uniforms[r] = pass_->uniforms + (here ? s : to[longest]).begin;
                states[r] = stored ? pass_->states + s.begin : &nowhere;
                mask[r] = stored ? -1 : 0;
            }
            for (int64_t i = top - 1; i >= end; --i) {
                for (int64_t x = 0; x < size; ++x) {
                    if (!ticker_.go_on(m)) return false;
                    draw_row(draws, group.kept(i), group.kept_table(i + 1), x * n + i, uniforms,
                             states, mask, next + x * N);
                }
            }
            for (int r = 0; r < m; ++r) {
                if (end != to[r].own || end == to[r].n) continue;
                for (int64_t x = 0; x < size; ++x) to[r].into[x] = next[x * N + r];
            }
            top = end;
        }
        return true;
    }
    VS_INLINE void draw_row(DrawsAbreast<D>& draws, const T* a, const T* tables, int64_t at,
                            const double* const* uniforms, int64_t* const* states,
                            const int64_t* mask, int* next) {
        constexpr int N = Abreast<D>::N;
        constexpr int64_t kAhead = 8;
        double u[N];
        for (int r = 0; r < N; ++r) u[r] = uniforms[r][at];
        if (at % kAhead == 0 && at >= kAhead) {  // the lines of the next positions
            for (int r = 0; r < N; ++r) {
                VS_PREFETCH_READ(uniforms[r] + at - kAhead);
                VS_PREFETCH_WRITE(states[r] + ((at - kAhead) & mask[r]));
            }
        }
        draws.row(d_, a, tables, u, next);
        each<N>([&](auto r) VS_INLINE_LAMBDA { states[r][at & mask[r]] = next[r]; });
    }

    // Forward messages to draw from: of forward passes where these know their own error, else of
    // passes both ways, of which one that went well proves them right; chunks are left without.
    // False: stopped.
    bool messages(Lane<D>* lanes, DrawnLane* to, const int64_t* item, int m, bool to_known) {
        const auto start = [&](int r, T* alpha) {
            const bool ok = init(lanes[r], to[r], item[r], to_known);
            lanes[r].alpha = alpha;
            if (again_) lanes[r].entry_f = nullptr;  // what is compared stays the guess
            return ok;
        };
        for (int r = 0; r < m; ++r) {
            if (!start(r, nullptr)) break;
            lanes[r].alpha = scratch_.array<T>(lanes[r].n * lanes[r].stride);
        }
        if (scratch_.failed) {
            no_memory();
            return false;
        }
        const bool alone = alone_;
        const Role role = pass_->proved ? Role::kStore : Role::kPass;
        if (alone && !engine_.group_forward(lanes, m, role)) return false;
        for (int r = 0; r < m; ++r) {
            Lane<D>& s = lanes[r];
            if (alone && s.status == vs::kOk && !ends_well(s)) s.status = vs::kWiden;
            if (alone && s.status != vs::kWiden) continue;
            if (chunks_) {
                s.status = vs::kWiden;
                continue;
            }
            if (!start(r, s.alpha)) {
                no_memory();
                return false;
            }
            NoSink sink;
            if (!engine_.group(&s, 1, sink)) return false;
            require_little_added(s);
        }
        return true;
    }
    // x_n ~ alpha_n, then x_i ~ alpha_i(.) E(., x_{i+1}). Samples and lanes go along together, so
    // that a draw need not wait for another. False: stopped.
    bool one_by_one(const int64_t* item, int m, bool to_known) {
        Lane<D> lanes[vs::kMostTogether];
        DrawnLane to[vs::kMostTogether];
        to[0].n = 0;  // no compiler knows that m > 0
        if (!messages(lanes, to, item, m, to_known)) return false;
        SamplesAbreast<D> samples;
        if (!samples.open(d_, pass_->size, DrawsBy::kColumns, scratch_)) {
            no_memory();
            return false;
        }
        for (int64_t i = to[0].n - 1; i >= 0; --i) {
            for (int q = 0; q < m; ++q) {
                const Lane<D>& s = lanes[q];
                if (i >= to[q].n || i < to[q].enter || s.status != vs::kOk) continue;
                if (!draw_all(samples, s, to[q], i)) return false;
            }
        }
        for (int q = 0; q < m; ++q) {
            const Lane<D>& s = lanes[q];
            finish(s, to[q], s.alpha + (to[q].own - 1) * s.stride);
            const int64_t rows = chunks_ ? tail_rows(to[q].own) : 0;
            for (int64_t i = 0; i < rows; ++i) {
                std::memcpy(tail(item[q], rows - i), s.alpha + (to[q].own - rows + i) * s.stride,
                            sizeof(T) * static_cast<size_t>(d_.K));
            }
        }
        return true;
    }
    // Position i of all samples.
    bool draw_all(SamplesAbreast<D>& samples, const Lane<D>& s, const DrawnLane& to, int64_t i) {
        const int64_t n = c_.n_positions;
        int64_t next_step, step;
        const int64_t* const next = to.after(pass_->states, n, i, &next_step);
        int64_t* const states = to.at(pass_->states, n, i, &step);
        const int64_t drawn =
            samples.draw(d_, s.alpha + i * s.stride, pass_->uniforms + to.begin + i, n, next,
                         next_step, states, step);
        for (int64_t x = drawn; x < pass_->size; ++x) {
            if (!ticker_.go_on()) return false;
            const T* message = nullptr;
            if (next) {
                message =
                    d_.column_message(s.edge + i, static_cast<int>(next[x * next_step]), column_);
            }
            const double u = pass_->uniforms[x * n + to.begin + i];
            states[x * step] = draw(d_, s.alpha + i * s.stride, message, u, weight_);
        }
        return true;
    }

    void compare_states(int64_t chunk) {
        const vs::Chunk& part = pass_->chunk[chunk];
        const int64_t* states = pass_->states + c_.offset[part.sequence] + part.last;
        const int64_t* into = pass_->into + chunk * pass_->size;
        bool wrong = false;
        for (int64_t x = 0; x < pass_->size; ++x) {
            wrong |= states[x * c_.n_positions] != into[x];
        }
        pass_->chunk_end[chunk].wrong_b = wrong;
    }
    // A chunk from the message that is known to enter it; `backward`: to the state that is known.
    void again(int64_t chunk, bool backward) {
        if (backward && draw_end(chunk)) return;
        chunks_ = again_ = true;
        alone_ = knows(chunk);
        one_by_one(&chunk, 1, backward);
    }
    // Draws the last states of a chunk again. False: stopped, or all of it has to be.
    bool draw_end(int64_t chunk) {
        const vs::Chunk& part = pass_->chunk[chunk];
        const int64_t n = c_.n_positions, first = c_.offset[part.sequence] + part.first;
        const int64_t own = part.last - part.first, rows = tail_rows(own);
        const int64_t edge = c_.edge[part.sequence] + part.first;
        for (int64_t x = 0; x < pass_->size; ++x) {
            int64_t* const states = pass_->states + x * n + first;
            if (states[own] == pass_->into[chunk * pass_->size + x]) continue;
            for (int64_t i = own - 1;; --i) {
                if (i < own - rows) {
                    if (i < 0) break;
                    return false;
                }
                if (!ticker_.go_on()) return false;
                const T* const a = tail(chunk, own - i);
                const T* const message =
                    d_.column_message(edge + i, static_cast<int>(states[i + 1]), column_);
                const int k = draw(d_, a, message, pass_->uniforms[x * n + first + i], weight_);
                if (states[i] == k) break;
                states[i] = k;
            }
        }
        return true;
    }

    vs::PathPass* pass_;
    D& d_;
    const vs::Chains& c_;
    Ticker ticker_;
    Exact<D> engine_;
    vs::Scratch& scratch_;
    T* column_;
    double* weight_;
    bool chunks_ = false, again_ = false;
    bool alone_ = false;  // forward messages of what is drawn now know their own error
};

template <class D>
void sample_task(vs::PathPass* pass, const vs::Work& work) {
    vs::Scratch& scratch = pass->scratch[work.worker];
    scratch.reset();
    PathTask<D> own(*pass, scratch, 3);
    double* weight = scratch.array<double>(draw_size(own.d.Kp));
    if (!own.ok || !weight) return pass->control->stop.store(2);
    SampleTasks<D>(pass, own.d, work.worker, own.rows, weight).task(work);
}

}  // namespace VS_NS
