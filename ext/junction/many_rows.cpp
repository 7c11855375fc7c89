// Many questions, side by side: messages up, messages down, and what is read from them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "core/at.h"
#include "core/powers.h"
#include "core/sum.h"
#include "core/underflow.h"
#include "junction/many.h"
#include "junction/poll.h"
#include "junction/state.h"

namespace vs::junction {

// Rows with the same evidence, side by side; and where each of these sets begins.
struct RowGroups {
    std::vector<int64_t> row, begin;
    int64_t size() const { return static_cast<int64_t>(begin.size()) - 1; }
};

namespace {

constexpr int64_t kRowBlock = 32 * kLanes;   // rows that are a task
constexpr int64_t kMostRowBlocks = 64;       // where each has counts of its own,
constexpr int64_t kMostRowCounts = 1 << 24;  // and so many of these at most

uint64_t row_hash(const int32_t* x, int64_t n) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < n; ++i) {
        h = (h ^ static_cast<uint32_t>(x[i])) * 0xff51afd7ed558ccdu;
        h ^= h >> 29;
    }
    return h;
}

// The variables of `order` that some row knows, as many as have their codes in 64 bits; and how
// many bits each of them takes.
std::vector<std::pair<int32_t, int>> packed(const EvidenceRows& q,
                                            const std::vector<int32_t>& order) {
    const int64_t n = static_cast<int64_t>(order.size());
    std::vector<int32_t> most(order.size(), -1);
    for (int64_t i = 0; i < q.rows; ++i) {
        const int32_t* const x = q.codes + i * n;
        for (int64_t v = 0; v < n; ++v) most[at(v)] = std::max(most[at(v)], x[v]);
    }
    std::vector<std::pair<int32_t, int>> found;
    int left = 64;
    for (const int32_t v : order) {
        int bits = 0;
        while ((int64_t{1} << bits) < int64_t{most[at(v)]} + 2) ++bits;
        if (bits == 0) continue;
        if (bits > left) break;
        left -= bits;
        found.push_back({v, bits});
    }
    return found;
}

// Questions that know the same of large cliques come one after the other: side by side they leave
// the same entries out.
RowGroups grouped(const EvidenceRows& q, const std::vector<int32_t>& order) {
    struct Key {
        uint64_t first, hash;
        int64_t row;
    };
    const int64_t n = static_cast<int64_t>(order.size());
    const std::vector<std::pair<int32_t, int>> lead = packed(q, order);
    std::vector<Key> key(at(q.rows));
    for (int64_t i = 0; i < q.rows; ++i) {
        const int32_t* const x = q.codes + i * n;
        uint64_t first = 0;
        for (const auto& [v, bits] : lead) {
            first = first << bits | static_cast<uint64_t>(int64_t{x[v]} + 1);
        }
        key[at(i)] = {first, row_hash(x, n), i};
    }
    const size_t bytes = at(n) * sizeof(int32_t);
    const auto compare = [&](const Key& a, const Key& b) {
        if (a.first != b.first) return a.first < b.first ? -1 : 1;
        if (a.hash != b.hash) return a.hash < b.hash ? -1 : 1;
        return n == 0 ? 0 : std::memcmp(q.codes + a.row * n, q.codes + b.row * n, bytes);
    };
    std::sort(key.begin(), key.end(), [&](const Key& a, const Key& b) {
        const int order = compare(a, b);
        return order != 0 ? order < 0 : a.row < b.row;
    });
    RowGroups found;
    for (size_t i = 0; i < key.size(); ++i) {
        if (i == 0 || compare(key[i - 1], key[i]) != 0) {
            found.begin.push_back(static_cast<int64_t>(i));
        }
        found.row.push_back(key[i].row);
    }
    found.begin.push_back(q.rows);
    return found;
}

}  // namespace

struct Many::Worker {
    // Tables that a clique meets: those that are the same along a row, and the others.
    template <class T>
    struct Met {
        std::vector<T*> table[2];
        std::vector<const int32_t*> at[2];

        void clear() {
            for (auto& x : table) x.clear();
            for (auto& x : at) x.clear();
        }
        void add(const Meeting& k, T* x) {
            table[k.varies].push_back(x);
            at[k.varies].push_back(k.at.data());
        }
        LaneTables<T> view(bool varying) const {
            return {static_cast<int>(table[varying].size()), table[varying].data(),
                    at[varying].data()};
        }
    };

    std::vector<double> message, belief, marginal, known, counts;
    std::vector<uint8_t> any;   // (n,) something is known of a variable in some lane
    std::vector<int64_t> bits;  // (cliques, kLanes) that messages were scaled by
    Met<const double> in;
    Met<double> out;
    double root[kLanes]{};  // the sum of the logs of the roots' masses

    Worker(const Many& m, bool with_counts)
        : message(at(m.n_messages_ * kLanes)),
          belief(message.size()),
          marginal(at(m.n_states_ * kLanes)),
          known(marginal.size()),
          counts(with_counts ? at(m.n_entries_ * kLanes) : 0),
          any(at(m.g_.n)),
          bits(m.clique_.size() * kLanes) {}
};

// Notes what a question knows in a lane; false where a state is impossible whatever else is known.
bool Many::find_states(const EvidenceRows& q, int64_t row, Worker* w, int lane) const {
    const int32_t* const codes = q.codes + row * g_.n;
    for (int64_t v = 0; v < g_.n; ++v) {
        if (codes[v] < 0) continue;
        const int32_t x = place_[at(v)][at(codes[v])];
        if (x < 0) return false;
        if (d_.size(v) == 1) continue;
        double* const known = w->known.data() + first_[at(v)] * kLanes;
        if (!w->any[at(v)]) {
            std::fill(known, known + d_.size(v) * kLanes, 1.0);
            w->any[at(v)] = 1;
        }
        for (int64_t y = 0; y < d_.size(v); ++y) known[y * kLanes + lane] = y == x ? 1.0 : 0.0;
    }
    return true;
}

// Collects the tables that are multiplied into the rows of a clique.
void Many::meet(const Clique& c, Worker* w) const {
    w->in.clear();
    for (const Meeting& k : c.child) {
        w->in.add(k, w->message.data() + clique_[at(k.which)].first_message * kLanes);
    }
    for (const Meeting& h : c.home) {
        if (!w->any[at(h.which)] || read_below_[at(h.which)]) continue;
        w->in.add(h, w->known.data() + first_[at(h.which)] * kLanes);
    }
}

void Many::up(Worker* w, const LaneLevel& level) const {
    std::fill(w->bits.begin(), w->bits.end(), 0);
    std::fill(w->root, w->root + kLanes, 0.0);
    for (size_t i = 0; i < clique_.size(); ++i) {
        const Clique& c = clique_[i];
        double* const message = w->message.data() + c.first_message * kLanes;
        meet(c, w);
        level.up({c.view(), w->in.view(false), w->in.view(true), message});
        // A state that is known from here on is taken out of the message.
        for (const Meeting& r : c.read) {
            if (!w->any[at(r.which)]) continue;
            level.multiply(message, r.at.data(), c.n_separator,
                           w->known.data() + first_[at(r.which)] * kLanes);
        }
        level.scale(message, c.n_separator, w->bits.data() + i * kLanes);
        if (c.parent >= 0) continue;
        for (int k = 0; k < kLanes; ++k) {
            w->root[k] += message[k] > 0.0 ? std::log(message[k]) : -INFINITY;
        }
    }
}

void Many::down(Worker* w, const LaneLevel& level, bool marginals, const double* weight) const {
    std::fill(w->belief.begin(), w->belief.end(), 0.0);
    if (marginals) std::fill(w->marginal.begin(), w->marginal.end(), 0.0);
    double mass[kLanes], by[kLanes]{};
    for (size_t i = clique_.size(); i-- > 0;) {
        const Clique& c = clique_[i];
        double* const from = w->belief.data() + c.first_message * kLanes;
        const double* const message = w->message.data() + c.first_message * kLanes;
        if (c.parent >= 0) {
            if (marginals) {
                for (const Meeting& r : c.read) {
                    level.add(from, r.at.data(), c.n_separator,
                              w->marginal.data() + first_[at(r.which)] * kLanes);
                }
            }
            level.divide(from, message, c.n_separator);
            level.scale(from, c.n_separator, nullptr);
        }
        meet(c, w);
        w->out.clear();
        for (const Meeting& k : c.child) {
            w->out.add(k, w->belief.data() + clique_[at(k.which)].first_message * kLanes);
        }
        for (const Meeting& h : c.home) {
            if (!marginals || read_below_[at(h.which)]) continue;
            w->out.add(h, w->marginal.data() + first_[at(h.which)] * kLanes);
        }
        double* counts = nullptr;
        if (weight) {
            counts = w->counts.data() + c.first_entry * kLanes;
            level.dot(message, c.parent < 0 ? nullptr : from, c.n_separator, mass);
            for (int k = 0; k < kLanes; ++k) {
                // Products are not scaled as their sums, the message, are.
                const int bits = static_cast<int>(w->bits[i * kLanes + at(k)]);
                by[k] = mass[k] > 0.0 ? weight[k] / std::ldexp(mass[k], bits) : 0.0;
            }
        }
        level.down({c.view(), w->in.view(false), w->in.view(true), c.parent < 0 ? nullptr : from,
                    w->out.view(false), w->out.view(true), by, counts});
    }
}

// The counts of a worker's entries, added to those of tables; they are zero afterwards.
void Many::add_counts(const EvidenceRows& q, Worker* w, double* counts) const {
    for (const Clique& c : clique_) {
        for (size_t e = 0; e < c.psi.size(); ++e) {
            double* const lane = w->counts.data() + (at(c.first_entry) + e) * kLanes;
            const double sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                               ((lane[4] + lane[5]) + (lane[6] + lane[7]));
            std::fill(lane, lane + kLanes, 0.0);
            for (const Family& f : c.family) {
                if (f.factor >= g_.n_factors || q.table[f.factor] < 0) continue;
                counts[q.table[f.factor] + f.at[e]] += sum;
            }
        }
    }
}

// Answers up to kLanes sets of equal rows: the first of each is row[k]; weight[k] are in it.
void Many::solve(const EvidenceRows& q, const int64_t* row, int n, const double* weight, Worker* w,
                 uint8_t* answer, double* log_z) const {
    const LaneLevel& level = lane_level();
    std::fill(w->any.begin(), w->any.end(), uint8_t{0});
    double counted[kLanes]{};
    bool fine[kLanes]{};
    for (int k = 0; k < n; ++k) {
        fine[k] = possible_ && find_states(q, row[k], w, k);
        if (fine[k]) counted[k] = weight[k];
    }
    if (std::none_of(fine, fine + n, [](bool x) { return x; })) {
        std::fill(answer, answer + n, uint8_t{kImpossible});
        std::fill(log_z, log_z + n, -INFINITY);
        return;
    }
    VS_NS::forget_underflow();
    up(w, level);
    bool small = VS_NS::underflow();
    if (!(small && q.counts) && (q.marginals || q.counts)) {
        down(w, level, q.marginals != nullptr, q.counts ? counted : nullptr);
        if (q.marginals) {
            for (int64_t v = 0; v < g_.n; ++v) {
                if (d_.size(v) == 1) continue;
                double* const p = w->marginal.data() + first_[at(v)] * kLanes;
                double total[kLanes];
                level.dot(p, nullptr, d_.size(v), total);
                level.share(p, total, d_.size(v));
            }
            small = small || VS_NS::underflow();
        }
    }
    for (int k = 0; k < n; ++k) {
        log_z[k] = -INFINITY;
        answer[k] = kImpossible;
        if (!fine[k]) continue;
        if (small) {
            answer[k] = kTooSmall;
            continue;
        }
        if (w->root[k] == -INFINITY) continue;
        int64_t bits = 0;
        for (size_t c = 0; c < clique_.size(); ++c) bits += w->bits[c * kLanes + at(k)];
        double rest;
        Sum total;
        total.add(shift_);
        total.add(w->root[k]);
        total.add(VS_NS::log_of_power(static_cast<double>(bits), &rest));
        total.add(rest);
        log_z[k] = total.total();
        answer[k] = kAnswered;
    }
}

// Writes the marginals of lane k.
void Many::write(const EvidenceRows& q, const Worker& w, int k, double* out) const {
    std::fill(out, out + q.ptr[g_.n], 0.0);
    for (int64_t v = 0; v < g_.n; ++v) {
        const int32_t* const value = d_.values(v);
        double* const p = out + q.ptr[v];
        if (d_.size(v) == 1) {
            p[value[0]] = 1.0;
            continue;
        }
        const double* const from = w.marginal.data() + first_[at(v)] * kLanes + k;
        for (int64_t x = 0; x < d_.size(v); ++x) p[value[x]] = from[x * kLanes];
    }
}

struct Many::Job {
    const Many& many;
    const EvidenceRows& q;
    const RowGroups groups;
    int64_t block, n_blocks;
    Control* control;
    std::vector<std::unique_ptr<Worker>> worker;
    std::vector<std::vector<double>> counts;  // of each block
    Outcome outcome{};

    static void task(void* context, int64_t task, int by) {
        Job& j = *static_cast<Job*>(context);
        j.outcome.run([&] { return j.run(task, by); });
    }

    Status run(int64_t task, int by) {
        if (!worker[at(by)]) worker[at(by)].reset(new Worker(many, q.counts != nullptr));
        Worker& w = *worker[at(by)];
        const Poll poll{control, by == 0};
        const int64_t last = std::min(groups.size(), (task + 1) * block);
        for (int64_t first = task * block; first < last; first += kLanes) {
            const int n = static_cast<int>(std::min<int64_t>(kLanes, last - first));
            int64_t row[kLanes];
            double weight[kLanes], log_z[kLanes];
            uint8_t answer[kLanes];
            for (int k = 0; k < n; ++k) {
                const int64_t begin = groups.begin[at(first + k)];
                row[k] = groups.row[at(begin)];
                weight[k] = static_cast<double>(groups.begin[at(first + k + 1)] - begin);
            }
            many.solve(q, row, n, weight, &w, answer, log_z);
            for (int k = 0; k < n; ++k) put(first + k, k, answer[k], log_z[k], w);
            if (!poll.go_on()) return kCancelled;
        }
        if (q.counts) {
            counts[at(task)].assign(at(q.n_counts), 0.0);
            many.add_counts(q, &w, counts[at(task)].data());
        }
        return kOk;
    }

    // Writes an answer to all rows that are equal.
    void put(int64_t group, int k, uint8_t answer, double log_z, const Worker& w) {
        const int64_t begin = groups.begin[at(group)], end = groups.begin[at(group + 1)];
        const int64_t size = q.ptr ? q.ptr[many.g_.n] : 0;
        const double* made = nullptr;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = groups.row[at(i)];
            q.answer[row] = answer;
            q.log_z[row] = log_z;
            if (!q.marginals) continue;
            double* const out = q.marginals + row * size;
            if (answer != kAnswered) {
                std::fill(out, out + size, 0.0);
            } else if (made) {
                std::copy(made, made + size, out);
            } else {
                many.write(q, w, k, out);
                made = out;
            }
        }
        control->done.fetch_add(end - begin, std::memory_order_relaxed);
    }
};

Status Many::run(const EvidenceRows& q, int threads, Control* control) const {
    Job j{*this, q, grouped(q, by_work_), kRowBlock, 0, control, {}, {}};
    if (q.counts) {
        // Blocks follow from the rows alone, so that sums have the same bits on any threads.
        const int64_t most = std::max<int64_t>(
            1,
            std::min<int64_t>(kMostRowBlocks, kMostRowCounts / std::max<int64_t>(1, q.n_counts)));
        const int64_t each = (j.groups.size() + most - 1) / most;
        j.block = std::max(kRowBlock, (each + kLanes - 1) / kLanes * kLanes);
    }
    j.n_blocks = (j.groups.size() + j.block - 1) / j.block;
    j.worker.resize(at(std::max(threads, 1)));
    if (q.counts) j.counts.resize(at(j.n_blocks));
    pool().run_plan(Plan("rows", j.n_blocks), Job::task, &j, threads, control);
    const Status status = j.outcome.end(*control);
    if (status != kOk || !q.counts) return status;
    for (const auto& some : j.counts) {
        for (int64_t i = 0; i < q.n_counts; ++i) q.counts[i] += some[at(i)];
    }
    // A factor of which every variable is decided is in no clique.
    double answered = 0.0;
    for (int64_t i = 0; i < q.rows; ++i) answered += q.answer[i] == kAnswered ? 1.0 : 0.0;
    for (int64_t f = 0; f < g_.n_factors; ++f) {
        const Factor x = factor_of(g_, f, nullptr);
        int64_t entry = 0;
        bool decided = q.table[f] >= 0;
        for (int64_t i = 0; i < x.arity; ++i) {
            decided = decided && d_.size(x.scope[i]) == 1;
            entry = entry * g_.card[x.scope[i]] + d_.values(x.scope[i])[0];
        }
        if (decided) q.counts[q.table[f] + entry] += answered;
    }
    return kOk;
}

}  // namespace vs::junction
