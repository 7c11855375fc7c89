// The best states of sequences, and of chunks of long ones, a few side by side.
//
// A chunk runs in from a row of zeros before its own part (path_cut.h has chunks of marginals).
// Rows are functions of the row before: once one is that of an uncut pass, all that follow are, bit
// for bit, and so are the states before a state. So a chunk is right where the row that enters it
// is what its neighbour has found there, number for number, and where the state that it ends with
// is the one that its neighbour comes from. Both happen soon: all that was once the best prefix
// makes rows equal, since each has its largest entry at zero. The trace begins behind the part, at
// the best state there. A chunk that is not right is done again, in order.
#pragma once

#include "core/sum.h"
#include "forest/best_abreast.h"
#include "forest/best_lone.h"
#include "forest/level.h"
#include "forest/path_best.h"
#include "forest/path_cut.h"

namespace VS_NS {

template <class In>
class BestTasks {
  public:
    BestTasks(vs::PathPass* pass, const Input<In>& in, int worker)
        : pass_(pass),
          in_(in),
          c_(pass->model.arrays),
          g_(c_.n_labels),
          v_(in, pass->scores),
          trace_(in, pass->scores),
          abreast_(in, pass->scores),
          ticker_(pass->control, worker == 0, c_.n_labels),
          scratch_(pass->scratch[worker]),
          backoff_(pass->backoff + worker),
          stride_(v_.stride()) {}

    void task(const vs::Work& work) {
        scratch_.reset();
        if (!v_.open(kRows, scratch_, backoff_) || !trace_.open(scratch_)) return no_memory();
        const int64_t first = work.item.first, last = work.item.last;
        switch (work.verb) {
            case vs::Verb::kPathBest:
                return groups(work.kind == vs::TaskKind::kChunks, first, last);
            case vs::Verb::kPathBestProbe:
                pass_->run_in = probe(first);
                return;
            case vs::Verb::kPathBestCompare:
                for (int64_t j = first; j < last; ++j) compare(j, work.kind);
                return;
            case vs::Verb::kPathBestAgain:
                return again(first, work.kind == vs::TaskKind::kBackward);
            default:  // kPathBestScore
                pass_->log_z[first] = score(first);
        }
    }

  private:
    using Rows = Prefixes<true, In, In>;
    static constexpr int kRows = Rows::kMostRows;

    void no_memory() { pass_->control->stop.store(2); }

    BestLane<In> chunk_of(int64_t chunk) const {
        const vs::Chunk& part = pass_->chunk[chunk];
        BestLane<In> s = best_lane<In>(c_, part.sequence, part.begin, part.end);
        s.enter = part.first - part.begin;
        s.last = part.last - part.begin;
        if (s.enter > 0) s.entry = cut_row(chunk, CutRow::kEntryForward);
        s.left = cut_row(chunk, CutRow::kLeftForward);
        return s;
    }
    In* cut_row(int64_t chunk, CutRow which) const {
        return VS_NS::cut_row<In>(pass_, stride_, chunk, which);
    }

    void groups(bool chunks, int64_t first, int64_t last) {
        const int64_t most = vs::best_together(c_);
        BestLane<In> lanes[vs::kMostTogether];
        for (int64_t i = first, next; i < last; i = next) {
            next = chunks            ? i + vs::chunks_together(pass_->chunk, i, last, most)
                   : last - i < most ? last
                                     : i + most;
            const int m = static_cast<int>(next - i);
            for (int r = 0; r < m; ++r) {
                lanes[r] = chunks ? chunk_of(i + r) : best_lane<In>(c_, pass_->order[i + r]);
            }
            if (!run_all(lanes, m)) return;
            for (int r = 0; r < m; ++r) {
                chunks ? keep(lanes[r], i + r) : finish(lanes[r]);
            }
        }
    }

    // Rows, then states, of lanes[0..m), as many side by side as that pays for. False: stopped.
    bool run_all(BestLane<In>* lanes, int m) {
        for (int first = 0, size; first < m; first += size) {
            BestLane<In>* const some = lanes + first;
            const int left = m - first;
            const vs::Scratch::Mark mark = scratch_.mark();
            size = left < abreast_.N ? left : abreast_.N;
            const bool abreast = abreast_.serves() && abreast_.pays(some, size);
            const bool lone = !abreast && left == 1 && some->sequence >= 0 && lone_serves();
            if (lone) {
                size = 1;
            } else if (!abreast) {
                const int most = pass_->scores && pass_->scores->rows && scans() ? 1 : kRows;
                size = left < most ? left : most;
            }
            if (!(abreast ? run_abreast(some, size) : lone ? run_lone(some[0]) : run(some, size))) {
                return false;
            }
            scratch_.rewind(mark);
        }
        return true;
    }
    // Do most messages need a few rows of the table? Then nothing is shared by lanes.
    bool scans() const { return backoff_->length < 8; }
    bool run_abreast(BestLane<In>* lanes, int m) {
        if (!abreast_.open(lanes, m, lanes[0].sequence >= 0, scratch_)) {
            no_memory();
            return false;
        }
        if (!abreast_.forward(ticker_)) return false;
        for (int r = 0; r < m; ++r) {
            const BestLane<In>& s = lanes[r];
            if (s.entry) abreast_.row(r, s.enter - 1, s.entry);
            if (s.left) abreast_.row(r, s.last - 1, s.left);
        }
        return abreast_.backward(ticker_, pass_->states);
    }

    // Two are already faster in lockstep.
    bool lone_serves() const {
        const vs::Scores* const table = pass_->scores;
        return table && table->tiles && table->columns && is_few(g_);
    }
    bool run_lone(BestLane<In>& s) {
        In* const rows = scratch_.array<In>((s.n + 1) * stride_);
        if (!rows) {
            no_memory();
            return false;
        }
        return with_few(g_, [&](auto nv, auto lone) {
            LoneBestPass<In, nv.value, lone.value> pass(in_, *pass_->scores, g_, s, ticker_);
            return pass.run(rows, pass_->states);
        });
    }

    // The same, row by row, of at most kRows lanes.
    bool run(BestLane<In>* lanes, int m) {
        In* rows[kRows];
        int64_t longest = 0;
        for (int r = 0; r < m; ++r) {
            rows[r] = scratch_.array<In>(lanes[r].n * stride_);
            longest = lanes[r].n > longest ? lanes[r].n : longest;
        }
        if (scratch_.failed) {
            no_memory();
            return false;
        }
        for (int64_t i = 0; i < longest; ++i) {
            if (!ticker_.go_on(m)) return false;
            typename Rows::Row next[kRows];
            int count = 0;
            for (int r = 0; r < m; ++r) {
                const BestLane<In>& s = lanes[r];
                if (i >= s.n) continue;
                In* const v = rows[r] + i * stride_;
                next[count++] = {s.begin + i,
                                 s.edge + i,
                                 s.head && i == 0,
                                 s.tail && i == s.n - 1,
                                 i > 0 ? v - stride_ : s.before,
                                 v};
            }
            v_.rows(next, count);
        }
        int64_t left[kRows];
        int state[kRows];
        bool going = false;
        for (int r = 0; r < m; ++r) {
            BestLane<In>& s = lanes[r];
            if (s.entry) copy(rows[r] + (s.enter - 1) * stride_, s.entry);
            if (s.left) copy(rows[r] + (s.last - 1) * stride_, s.left);
            const In* v = rows[r] + (s.n - 1) * stride_;
            state[r] = s.state >= 0 ? s.state : row_argmax(v, in_.c.n_labels);
            s.dead = !(v[state[r]] > Input<In>::forbidden());
            left[r] = s.dead ? 0 : s.n;
            going |= !s.dead;
        }
        while (going) {
            if (!ticker_.go_on()) return false;
            going = false;
            for (int r = 0; r < m; ++r) {
                BestLane<In>& s = lanes[r];
                if (left[r] == 0) continue;
                const int64_t i = --left[r];
                if (i < s.last) pass_->states[s.begin + i] = state[r];
                const In* x = i > 0 ? rows[r] + (i - 1) * stride_ : s.before;
                if (x != nullptr) state[r] = trace_.step(x, s.edge + i, state[r]);
                if (i == s.enter) {
                    if (x != nullptr) s.into = state[r];
                    left[r] = 0;
                }
                going |= left[r] > 0;
            }
        }
        for (int r = 0; r < m; ++r) {
            BestLane<In>& s = lanes[r];
            if (s.sequence >= 0) s.score = s.dead ? -INFINITY : score(s.sequence);
        }
        return true;
    }

    // Keeps how a chunk has ended.
    void keep(const BestLane<In>& s, int64_t chunk) {
        vs::ChunkEnd& end = pass_->chunk_end[chunk];
        end.status = s.dead ? vs::kInfeasible : vs::kOk;
        end.into = s.into;
    }
    void finish(const BestLane<In>& s) { pass_->log_z[s.sequence] = s.score; }
    void copy(const In* x, In* to) const {
        std::memcpy(to, x, sizeof(In) * static_cast<size_t>(stride_));
    }

    // The score of the states of a sequence, added up from its end.
    double score(int64_t sequence) {
        const int64_t begin = c_.offset[sequence], n = c_.offset[sequence + 1] - begin;
        const int64_t edge = c_.edge[sequence];
        const int64_t* states = pass_->states + begin;
        constexpr int64_t kAhead = 16;  // rows of a long sequence have left the cache
        vs::Sum total;
        for (int64_t i = n - 1; i >= 0; --i) {
            if (!ticker_.go_on()) return 0.0;
            if (i >= kAhead) {
                const int64_t j = i - kAhead;
                __builtin_prefetch(in_.unary + (begin + j) * c_.n_labels + states[j]);
            }
            total.add(static_cast<double>(in_.score(begin + i, states[i], i == 0, i == n - 1)));
            if (i == 0) break;
            total.add(in_.transition ? static_cast<double>(
                                           in_.edge_score(edge + i - 1, states[i - 1], states[i]))
                                     : c_.sparse->at_pair(c_.dtype, states[i - 1], states[i]));
        }
        return total.total();
    }

    // The cut between a chunk and its neighbour: by rows that enter, by states that are left.
    void compare(int64_t chunk, vs::TaskKind kind) {
        vs::ChunkEnd& end = pass_->chunk_end[chunk];
        if (kind == vs::TaskKind::kForward) {
            end.wrong_f = !same(cut_row(chunk, CutRow::kEntryForward),
                                cut_row(chunk - 1, CutRow::kLeftForward));
        } else {
            const vs::Chunk& part = pass_->chunk[chunk];
            const int64_t at = c_.offset[part.sequence] + part.last - 1;
            end.wrong_b = pass_->states[at] != pass_->chunk_end[chunk + 1].into;
        }
    }
    bool same(const In* x, const In* y) const {
        const In most = static_cast<In>(pass_->agree);
        for (int k = 0; k < in_.c.n_labels; ++k) {
            if (!(x[k] <= y[k] + most && y[k] <= x[k] + most)) return false;
        }
        return true;
    }

    // A chunk from the row that is known to enter it; `backward`: to the state that is known, too.
    void again(int64_t chunk, bool backward) {
        const vs::Chunk& part = pass_->chunk[chunk];
        BestLane<In> s =
            best_lane<In>(c_, part.sequence, part.first, backward ? part.last : part.end);
        s.last = part.last - part.first;
        if (part.first > 0) s.before = cut_row(chunk - 1, CutRow::kLeftForward);
        if (backward) s.state = pass_->chunk_end[chunk + 1].into;
        s.left = cut_row(chunk, CutRow::kLeftForward);
        if (run(&s, 1)) keep(s, chunk);
    }

    // How far a guess runs until its rows are the true ones, at most `farthest` + 1.
    int64_t probe_at(int64_t sequence, int64_t at, int64_t farthest) {
        In* rows[2] = {scratch_.array<In>(2 * stride_), scratch_.array<In>(2 * stride_)};
        if (scratch_.failed) {
            no_memory();
            return 0;
        }
        const BestLane<In> s = best_lane<In>(c_, sequence, at, at + kBefore + farthest);
        for (int64_t i = 0; i < s.n; ++i) {
            const int64_t to = i % 2 * stride_, from = stride_ - to;
            for (int r = 0; r < (i < kBefore ? 1 : 2); ++r) {
                if (!ticker_.go_on()) return 0;
                const bool first = i == (r == 0 ? 0 : kBefore);
                const typename Rows::Row next = {
                    s.begin + i, s.edge + i, false, false, first ? nullptr : rows[r] + from,
                    rows[r] + to};
                v_.rows(&next, 1);
            }
            if (i >= kBefore && same(rows[0] + to, rows[1] + to)) return i - kBefore + 1;
        }
        return farthest + 1;
    }
    // Twice as far as rows have to run in, 0: influence does not die.
    int64_t probe(int64_t sequence) {
        const int64_t n = c_.offset[sequence + 1] - c_.offset[sequence];
        int64_t farthest = n / 256 < 4 * kFarthest ? n / 256 : 4 * kFarthest;
        farthest = farthest > kFarthest ? farthest : kFarthest;
        const int64_t most = most_steps(n, farthest, [&](int64_t at, bool forward) {
            if (!forward) return int64_t{0};
            const vs::Scratch::Mark mark = scratch_.mark();
            const int64_t steps = probe_at(sequence, at, farthest);
            scratch_.rewind(mark);
            return steps;
        });
        if (most > farthest) return 0;
        return most <= 8 ? 16 : (2 * most + 15) / 16 * 16;
    }

    vs::PathPass* pass_;
    const Input<In>& in_;
    const vs::Chains& c_;
    const Tiling<In> g_;
    Rows v_;
    BackTrace<In> trace_;
    BestAbreast<In> abreast_;
    Ticker ticker_;
    vs::Scratch& scratch_;
    vs::ScanBackoff* backoff_;
    const int64_t stride_;
};

static void best_path(vs::PathPass* pass, const vs::Work& work) {
    const auto in = [&](auto type) {
        using In = decltype(type);
        const Input<In> scores(pass->model.arrays);
        BestTasks<In>(pass, scores, work.worker).task(work);
    };
    pass->model.arrays.dtype == vs::kFloat32 ? in(float()) : in(double());
}

}  // namespace VS_NS
