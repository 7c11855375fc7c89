#include "junction/layout.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>

namespace vs::junction {
namespace {

using Set = std::vector<int32_t>;

bool has(const Set& s, int32_t v) { return std::find(s.begin(), s.end(), v) != s.end(); }
bool within(const Set& a, const Set& b) {
    return std::all_of(a.begin(), a.end(), [&](int32_t v) { return has(b, v); });
}

bool covers(const Set& a, const Set& b) { return within(b, a); }

class Planner {
  public:
    Planner(const Graph& g, const Domains& d, const CliqueTree& t, const std::vector<int64_t>& soft,
            Layout* out)
        : g_(g), d_(d), t_(t), soft_(soft), out_(*out) {}

    double values(int32_t v) const { return static_cast<double>(d_.size(v)); }
    double product(const Set& s) const {
        double p = 1.0;
        for (int32_t v : s) p *= values(v);
        return p;
    }
    Set live(const Set& s) const {
        Set r;
        for (int32_t v : s) {
            if (d_.size(v) > 1) r.push_back(v);
        }
        return r;
    }
    Dims dims(const Set& order) const {
        Dims r;
        r.var = order;
        r.stride.resize(order.size());
        int64_t size = 1;
        for (size_t i = order.size(); i-- > 0;) {
            r.stride[i] = size;
            size *= d_.size(order[i]);
        }
        r.size = size;
        return r;
    }

    void measure() {
        const size_t m = t_.clique.size();
        out_.clique.resize(m);
        std::vector<Set> separator(m);
        std::vector<std::vector<int32_t>> children(m);
        for (size_t c = 0; c < m; ++c) {
            separator[c] = live(t_.separator[c]);
            if (t_.parent[c] >= 0) children[t_.parent[c]].push_back(static_cast<int32_t>(c));
        }
        assign_factors();
        out_.seen_in.assign(static_cast<size_t>(g_.n), -1);
        std::vector<double> smallest(static_cast<size_t>(g_.n), INFINITY);
        for (size_t c = 0; c < m; ++c) {
            const double size = product(separator[c]);
            for (int32_t v : separator[c]) {
                if (size < smallest[v]) {
                    smallest[v] = size;
                    out_.seen_in[v] = static_cast<int32_t>(c);
                }
            }
        }
        for (size_t c = m; c-- > 0;) {  // parents first: they order their children's messages
            CliqueLayout& l = out_.clique[c];
            const Set vars = live(t_.clique[c]);
            l.size = product(vars);
            out_.table_size += l.size;
            if (l.size > out_.largest) {
                out_.largest = l.size;
                out_.largest_clique = static_cast<int32_t>(c);
            }
            out_.width = std::max(out_.width, static_cast<int>(vars.size()) - 1);
            if (t_.parent[c] >= 0) {
                l.message = message_dims(separator[c], out_.clique[t_.parent[c]]);
            }
            for (int32_t v : vars) {
                if (out_.seen_in[v] < 0) l.alone.push_back(v);
            }
            for (int32_t k : children[c]) {
                Child child;
                child.clique = k;
                l.children.push_back(child);
            }
            if (l.size > kTooLarge) {  // nobody will run this
                out_.bytes += 8.0 * l.size;
                continue;
            }
            find_hosts(l, separator);
            group_statics(l);
            choose_tile(l, vars, separator);
            account(l);
        }
    }

    // Nanoseconds of a first question on one thread, tables opened and indexed: fitted to the 22
    // instances and the networks that the benchmarks know (benchmarks/predicted_time.py).
    void predict() {
        constexpr double kCall = 3e4, kClique = 9e3, kRowOf = 2.0, kView = 1.5, kEntry = 0.09;
        constexpr double kFar = 0.25, kCopy = 5.0, kMessage = 4.5, kOpened = 8.0, kIndex = 0.2;
        constexpr double kNear = 24576.0;  // bytes of rows that the nearest cache holds
        out_.nanoseconds = kCall;
        for (size_t c = 0; c < out_.clique.size(); ++c) {
            const CliqueLayout& l = out_.clique[c];
            if (l.size > kTooLarge) {
                out_.nanoseconds += l.size;
                continue;
            }
            const bool root = t_.parent[c] < 0;
            const auto copied = [](const View& v) { return !v.scalar && !v.direct; };
            // Tables that meet rows side by side, going in and coming out, and all views.
            double in = 0.0, out = l.alone_tile ? 1.0 : 0.0, views = 0.0, ns = kClique;
            const auto meet = [&](const View& v, bool down) {
                views += down ? 3.0 : 2.0;
                if (!v.scalar) in += 1.0;
                if (!v.scalar && down) out += 1.0;
                if (copied(v)) ns += 2.0 * kCopy * static_cast<double>(v.size);
                ns += kIndex * static_cast<double>(l.rows);
            };
            for (const Static& s : l.statics) {
                meet(s.view, false);
                ns += kOpened * static_cast<double>(s.view.size);
                for (int64_t f : s.factors) ns += kOpened * product(scope(f));
            }
            for (const Child& k : l.children) {
                ns += kMessage * static_cast<double>(out_.clique[k.clique].message.size);
                if (k.host < 0) {
                    meet(k.view, true);
                    continue;
                }
                const int32_t host = l.children[k.host].clique;
                ns += 2.0 * kMessage * static_cast<double>(out_.clique[host].message.size);
            }
            double sums = 2.0 * in + out;
            if (!root) {
                meet(l.up, false);
                if (!l.up.scalar) sums += 2.0;
            }
            const double rows = static_cast<double>(l.rows), width = static_cast<double>(l.width);
            const bool far = (in + out) * width * 8.0 > kNear;
            ns += rows * (2.0 * kRowOf + kView * views);
            ns += l.size * sums * (far ? kEntry + kFar : kEntry);
            out_.nanoseconds += ns;
        }
    }

    // Cuts large cliques, merges small subtrees: by estimated cost, so the same for any threads.
    void schedule() {
        const int32_t m = static_cast<int32_t>(out_.clique.size());
        std::vector<Cost> cost[2];
        cost[0].resize(static_cast<size_t>(m));
        cost[1].resize(static_cast<size_t>(m));
        std::vector<double> below(static_cast<size_t>(m));
        double copies = 0.0;  // entries that the blocks of one clique add up in
        for (int32_t c = 0; c < m; ++c) {
            CliqueLayout& l = out_.clique[c];
            double sums = static_cast<double>(l.width) + 1.0;  // of which blocks need copies
            for (Child& k : l.children) {
                if (k.host >= 0) continue;
                k.view.apart = covers(out_.clique[k.clique].message.var, l.cut);
                if (!k.view.apart) sums += static_cast<double>(k.view.size);
            }
            l.up.apart = t_.parent[c] >= 0 && covers(l.message.var, l.cut);
            l.blocks_up = l.blocks_down = 1;
            if (!l.cut.empty()) {
                const double want = std::min({kBlocks, std::ceil(l.size / kBlock), product(l.cut)});
                l.unit = l.rows / static_cast<int64_t>(product(l.cut));
                const auto blocks = [&](double copied) {
                    return static_cast<int>(std::max(1.0, std::min(want, 0.5 * l.size / copied)));
                };
                l.blocks_down = blocks(sums);
                l.blocks_up = blocks(l.up.apart ? 1.0 : static_cast<double>(l.up.size));
                const double up = l.up.apart ? 0.0 : static_cast<double>(l.up.size);
                copies = std::max({copies, (l.blocks_down - 1) * sums, (l.blocks_up - 1) * up});
            }
            for (int up = 0; up < 2; ++up) {
                Cost& x = cost[up][c];
                x = cost_of(l, up == 1, t_.parent[c] < 0);
                (up ? l.open_up : l.open_down) = pieces(x.open);
                (up ? l.shut_up : l.shut_down) = pieces(x.shut);
                below[c] += 0.5 * (x.open + x.rows + x.shut);
            }
            if (t_.parent[c] >= 0) below[t_.parent[c]] += below[c];
        }
        out_.bytes += 8.0 * copies;
        // A task is a subtree that costs little, or one clique.
        std::vector<int32_t> group(static_cast<size_t>(m));  // its top clique
        for (int32_t c = m; c-- > 0;) {
            const int32_t p = t_.parent[c];
            group[c] = p >= 0 && below[p] <= kTask ? group[p] : c;
        }
        std::vector<std::vector<int32_t>> members(static_cast<size_t>(m));
        for (int32_t c = 0; c < m; ++c) members[group[c]].push_back(c);
        for (int up = 0; up < 2; ++up) {
            Schedule& s = up ? out_.upward : out_.downward;
            s = Schedule();
            std::vector<int64_t> entry(static_cast<size_t>(m), -1), leave(entry);
            std::vector<std::pair<int64_t, int64_t>> edges;
            const auto add = [&](Schedule::Kind kind, int64_t first, int64_t last, double ns) {
                s.kind.push_back(kind);
                s.first.push_back(first);
                s.last.push_back(last);
                s.cost.push_back(ns);
                s.nanoseconds += ns;
                return static_cast<int64_t>(s.kind.size()) - 1;
            };
            for (int32_t i = 0; i < m; ++i) {
                const int32_t c = up ? i : m - 1 - i;
                if (group[c] != c) continue;
                const CliqueLayout& l = out_.clique[c];
                const int blocks = up ? l.blocks_up : l.blocks_down;
                const int open = up ? l.open_up : l.open_down, shut = up ? l.shut_up : l.shut_down;
                if (std::max({blocks, open, shut}) > 1 && members[c].size() == 1) {
                    std::vector<int64_t> before, stage;
                    // One stage, or several that are one task; all pieces of one wait for all of
                    // the one before.
                    const auto then = [&](Schedule::Kind kind, Stage from, Stage to, int n,
                                          double ns) {
                        stage.clear();
                        for (int k = 0; k < n; ++k) {
                            const int64_t what =
                                kind == Schedule::kBlock ? k : Schedule::pack(from, to, k);
                            stage.push_back(add(kind, c, what, kLeast + ns / n));
                            for (int64_t b : before) edges.push_back({b, stage.back()});
                        }
                        before.swap(stage);
                    };
                    const Cost& x = cost[up][c];
                    const auto one = [&](Schedule::Kind kind, Stage s, int n, double ns) {
                        then(kind, s, s, n, ns);
                    };
                    entry[c] = static_cast<int64_t>(s.kind.size());
                    if (open == 1) {
                        then(Schedule::kBegin, kOpen, kSpread, 1, x.open);
                    } else {
                        one(Schedule::kBegin, kOpen, 1, 0.0);
                        if (up && x.hosts > 0.0) one(Schedule::kPiece, kHosts, open, x.hosts);
                        one(Schedule::kPiece, kSpread, open, x.open - x.hosts);
                    }
                    then(Schedule::kBlock, kSweep, kSweep, blocks, x.rows);
                    if (shut == 1) {
                        then(Schedule::kEnd, kMerge, kLeave, 1, x.shut);
                    } else {
                        one(Schedule::kPiece, kMerge, shut, x.merge);
                        if (x.gather > 0.0) one(Schedule::kPiece, kGather, shut, x.gather);
                        if (x.hosted > 0.0) one(Schedule::kPiece, kHosted, shut, x.hosted);
                        if (x.deep > 0.0) one(Schedule::kPiece, kDeep, 1, x.deep);
                        one(Schedule::kPiece, kShare, shut, x.share);
                        one(Schedule::kPiece, kClose, 1, x.close);
                        one(Schedule::kPiece, kScale, shut, x.scale);
                        one(Schedule::kEnd, kLeave, 1, 0.0);
                    }
                    leave[c] = before[0];
                } else {
                    const int64_t first = static_cast<int64_t>(s.order.size());
                    double ns = 0.0;
                    for (size_t q = 0; q < members[c].size(); ++q) {
                        const int32_t k = members[c][up ? q : members[c].size() - 1 - q];
                        s.order.push_back(k);
                        ns += cost[up][k].open + cost[up][k].rows + cost[up][k].shut;
                    }
                    entry[c] = leave[c] =
                        add(Schedule::kWhole, first, static_cast<int64_t>(s.order.size()), ns);
                }
            }
            for (int32_t c = 0; c < m; ++c) {
                if (group[c] != c || t_.parent[c] < 0) continue;
                const int32_t p = group[t_.parent[c]];
                if (up) {
                    edges.push_back({leave[c], entry[p]});
                } else {
                    edges.push_back({leave[p], entry[c]});
                }
            }
            const size_t n = s.kind.size();
            s.waits.assign(n, 0);
            s.succ_ptr.assign(n + 1, 0);
            s.succ.resize(edges.size());
            for (const auto& [a, b] : edges) {
                ++s.succ_ptr[static_cast<size_t>(a) + 1];
                ++s.waits[static_cast<size_t>(b)];
            }
            for (size_t i = 0; i < n; ++i) s.succ_ptr[i + 1] += s.succ_ptr[i];
            std::vector<int64_t> next = s.succ_ptr;
            for (const auto& [a, b] : edges) s.succ[static_cast<size_t>(next[a]++)] = b;
            std::vector<double> path(n);
            std::vector<int32_t> urgent(n);
            for (size_t i = n; i-- > 0;) {
                urgent[i] = static_cast<int32_t>(i);
                for (int64_t e = s.succ_ptr[i]; e < s.succ_ptr[i + 1]; ++e) {
                    path[i] = std::max(path[i], path[static_cast<size_t>(s.succ[e])]);
                }
                path[i] += s.cost[i];
            }
            std::stable_sort(urgent.begin(), urgent.end(),
                             [&](int32_t a, int32_t b) { return path[a] > path[b]; });
            s.rank.resize(n);
            for (size_t i = 0; i < n; ++i) s.rank[urgent[i]] = static_cast<int32_t>(i);
            for (size_t i = 0; i < n; ++i) {
                std::sort(s.succ.begin() + s.succ_ptr[i], s.succ.begin() + s.succ_ptr[i + 1],
                          [&](int64_t a, int64_t b) { return s.rank[a] > s.rank[b]; });
            }
        }
    }

    // Nanoseconds of one direction through a clique: before its rows, in them, after them.
    struct Cost {
        double open = 0.0, hosts = 0.0, rows = 0.0, shut = 0.0;
        double merge = 0.0, gather = 0.0, hosted = 0.0, deep = 0.0, share = 0.0, close = 0.0,
               scale = 0.0;
    };
    static int pieces(double ns) {
        return static_cast<int>(std::max(1.0, std::min(kBlocks, std::floor(ns / kPiece))));
    }
    Cost cost_of(const CliqueLayout& l, bool up, bool root) const {
        constexpr double kTouch = 0.25, kCopy = 1.0, kLook = 1.5, kSum = 0.35, kDivide = 1.0;
        const auto copied = [](const View& v) { return !v.scalar && !v.direct; };
        const int blocks = up ? l.blocks_up : l.blocks_down;
        const double own = static_cast<double>(l.message.size);
        Cost x;
        double operands = 1.0 + static_cast<double>(l.statics.size()), zeros = 0.0, sums = 0.0;
        const auto collect = [&](const View& v, double size) {
            const double wide = static_cast<double>(v.size);
            zeros += v.apart ? wide : blocks * wide;
            if (!v.apart) x.merge += kSum * (blocks - 1) * wide;
            if (copied(v)) {
                x.merge += kTouch * size;
                x.gather += kCopy * wide;
            }
            sums += v.scalar ? 0.1 : 1.0;
        };
        for (const Child& k : l.children) {
            const double size = static_cast<double>(out_.clique[k.clique].message.size);
            if (k.host < 0) operands += 1.0;
            if (up) {
                if (k.hosts) {
                    const double n = static_cast<double>(k.guests.size());
                    (k.host < 0 ? x.hosts : x.open) += size * (kTouch + kLook * n);
                }
                if (k.host < 0 && copied(k.view))
                    x.open += kCopy * static_cast<double>(k.view.size);
                continue;
            }
            if (k.host < 0) {
                collect(k.view, size);
            } else {
                const Child& host = l.children[k.host];
                const double n = static_cast<double>(out_.clique[host.clique].message.size);
                (host.host < 0 ? x.hosted : x.deep) += kLook * n;
            }
            x.share += (k.shown > 0 ? kSum + kDivide : kDivide) * size;
            if (k.shown > 1) {
                x.close += kSum * size / values(out_.clique[k.clique].message.var[0]);
            }
            x.scale += kTouch * size;
        }
        if (up && !root) {
            collect(l.up, own);
            x.share += kTouch * own;
            x.scale += kTouch * own;
        } else if (!root) {
            operands += 1.0;
            if (copied(l.up)) x.open += kCopy * static_cast<double>(l.up.size);
        }
        x.open += x.hosts + kTouch * zeros;
        x.rows = kLeast + static_cast<double>(l.rows) * 4.0 +
                 l.size * (up ? 0.06 : 0.09) * (operands + sums);
        x.shut = x.merge + x.gather + x.hosted + x.deep + x.share + x.close + x.scale;
        return x;
    }

    // Index arrays of everything measured: cliques in runs that are worth a task each.
    Status complete(std::vector<Query>* queries, const PoolApi& pool, int threads,
                    Control* control) {
        Fill work{this, {0}, control, {kOk}};
        double rows = 0.0, all = 0.0;
        for (size_t c = 0; c < out_.clique.size(); ++c) {
            const double mine = static_cast<double>(out_.clique[c].rows);
            all += mine;
            rows += mine + 64.0;
            if (rows < kRows && c + 1 < out_.clique.size()) continue;
            work.begin.push_back(c + 1);
            rows = 0.0;
        }
        Plan plan;
        plan.n = static_cast<int64_t>(work.begin.size()) - 1;
        pool.run_plan(plan, Fill::task, &work, all < kRows ? 1 : threads, control);
        if (work.status.load() != kOk) return static_cast<Status>(work.status.load());
        if (control->stop.load()) return kCancelled;
        complete_queries(queries);
        return kOk;
    }

  private:
    struct Fill {
        Planner* planner;
        std::vector<size_t> begin;  // (runs + 1,) of cliques
        Control* control;
        std::atomic<int> status;

        static void task(void* context, int64_t run, int worker) {
            Fill& w = *static_cast<Fill*>(context);
            try {
                for (size_t c = w.begin[run]; c < w.begin[run + 1]; ++c) {
                    w.planner->complete_clique(c, w.control, worker == 0);
                }
            } catch (const std::bad_alloc&) {
                w.status.store(kNoMemory);
            }
        }
    };
    static bool go_on(Control* control, bool listens) {
        if (listens && control->poll && control->poll(control->arg)) control->stop.store(1);
        return !control->stop.load(std::memory_order_relaxed);
    }
    void complete_clique(size_t c, Control* control, bool listens) {
        CliqueLayout& l = out_.clique[c];
        listens = listens && l.rows > kRowsHeard;
        for (Static& s : l.statics) {
            fill(l, s.dims, &s.view);
            if (!go_on(control, listens)) return;
        }
        for (Child& k : l.children) {
            const Dims& d = out_.clique[k.clique].message;
            if (k.host < 0) {
                fill(l, d, &k.view);
            } else {
                k.map = map(out_.clique[l.children[k.host].clique].message, d, k.run);
            }
            if (!go_on(control, listens)) return;
        }
        if (t_.parent[c] >= 0) fill(l, l.message, &l.up);
        l.alone_outer.clear();
        for (int32_t v : l.alone) {
            if (has(l.tile, v)) continue;
            if (!go_on(control, listens)) return;
            View own;
            own.scalar = true;
            fill(l, dims({v}), &own);
            l.alone_outer.push_back({v, std::move(own.at)});
        }
    }
    void complete_queries(std::vector<Query>* queries) {
        for (Query& q : *queries) {
            // Known when it was compiled in: some clique holds them all.
            const Set vars = live(q.vars);
            q.clique = -1;
            for (size_t c = 0; c < out_.clique.size(); ++c) {
                if (!within(vars, t_.clique[c])) continue;
                if (q.clique < 0 || out_.clique[c].size < out_.clique[q.clique].size) {
                    q.clique = static_cast<int32_t>(c);
                }
            }
            q.dims = dims(vars);
            if (q.clique >= 0) {
                q.view = shape(vars, q.dims, out_.clique[q.clique]);
                fill(out_.clique[q.clique], q.dims, &q.view);
            }
        }
    }

    static constexpr double kTooLarge = 4e12;
    static constexpr double kRow = 64.0;  // entries that make a row worth its overhead
    static constexpr double kLeastRow = 16.0;
    static constexpr double kSmallClique = 256.0;  // one row
    static constexpr double kStatic = 32768.0;     // entries of factors multiplied together
    static constexpr double kBlock = 524288.0;     // entries of a clique worth a task of their own
    static constexpr double kBlocks = 8.0;         // of one clique
    static constexpr double kTask = 40000.0;       // nanoseconds
    static constexpr double kPiece = 60000.0;      // nanoseconds of a piece before or after rows
    static constexpr double kLeast = 300.0;        // nanoseconds of any task
    static constexpr double kRows = 262144.0;      // rows of cliques whose indices are one task
    static constexpr int64_t kRowsHeard = 65536;   // rows whose indices take long enough to poll
    static constexpr size_t kManyChildren = 512;   // not compared pair by pair

    void assign_factors() {
        factors_.assign(t_.clique.size(), {});
        const auto assign = [&](int64_t f) {
            int32_t first = -1;
            for (int32_t v : scope(f)) {
                if (first < 0 || t_.rank[v] < t_.rank[first]) first = v;
            }
            if (first >= 0) factors_[t_.home[first]].push_back(f);
        };
        for (int64_t f = 0; f < g_.n_factors; ++f) assign(f);
        for (int64_t v : soft_) assign(g_.n_factors + v);
    }
    Set scope(int64_t f) const {
        const Factor factor = factor_of(g_, f, nullptr);
        Set s;
        for (int64_t i = 0; i < factor.arity; ++i) {
            const int32_t v = static_cast<int32_t>(factor.scope[i]);
            if (d_.size(v) > 1) s.push_back(v);
        }
        return s;
    }

    Dims message_dims(const Set& separator, const CliqueLayout& parent) const {
        Set order;
        for (int32_t v : parent.outer) {
            if (has(separator, v)) order.push_back(v);
        }
        for (int32_t v : parent.tile) {
            if (has(separator, v)) order.push_back(v);
        }
        return dims(order);
    }

    // A message whose separator lies within another child's is multiplied into that one's.
    void find_hosts(CliqueLayout& l, const std::vector<Set>& separator) {
        const size_t k = l.children.size();
        l.order.resize(k);
        for (size_t i = 0; i < k; ++i) l.order[i] = static_cast<int32_t>(i);
        if (k < 2) return;
        std::vector<int> order(k);
        std::vector<Set> sorted(k);
        for (size_t i = 0; i < k; ++i) {
            order[i] = static_cast<int>(i);
            sorted[i] = separator[l.children[i].clique];
            std::sort(sorted[i].begin(), sorted[i].end());
        }
        std::sort(order.begin(), order.end(), [&](int a, int b) {
            return sorted[a] != sorted[b] ? sorted[a] < sorted[b] : a < b;
        });
        std::vector<int> distinct;
        for (int i : order) {
            if (!distinct.empty() && sorted[distinct.back()] == sorted[i]) {
                l.children[i].host = distinct.back();
            } else {
                distinct.push_back(i);
            }
        }
        if (distinct.size() > kManyChildren) distinct.clear();
        for (int i : distinct) {
            int best = -1;
            for (int j : distinct) {
                if (sorted[j].size() <= sorted[i].size()) continue;
                if (best >= 0 && product(sorted[j]) >= product(sorted[best])) continue;
                if (within(sorted[i], sorted[j])) best = j;
            }
            l.children[i].host = best;
        }
        for (const Child& c : l.children) {
            if (c.host >= 0) l.children[c.host].hosts = true;
        }
        std::stable_sort(l.order.begin(), l.order.end(), [&](int32_t a, int32_t b) {
            const size_t na = sorted[a].size(), nb = sorted[b].size();
            if (na != nb) return na < nb;
            // Of equal ones all but the host come first.
            return sorted[a] != sorted[b] ? sorted[a] < sorted[b]
                                          : !l.children[a].hosts && l.children[b].hosts;
        });
        for (int32_t i : l.order) {
            const int32_t host = l.children[i].host;
            if (host < 0) continue;
            l.children[host].guests.push_back(i);
            l.deep = l.deep || l.children[host].host >= 0;
        }
    }

    void group_statics(CliqueLayout& l) {
        const size_t c = static_cast<size_t>(&l - out_.clique.data());
        std::vector<std::pair<double, int64_t>> order;
        for (int64_t f : factors_[c]) order.push_back({-product(scope(f)), f});
        std::sort(order.begin(), order.end());
        struct Group {
            Set vars;
            std::vector<int64_t> factors;
        };
        std::vector<Group> groups;
        // Larger ones would be read from memory, not from a cache.
        const double free = std::min(kStatic, l.size <= 4096.0 ? l.size : l.size / 8.0);
        for (const auto& [size, f] : order) {
            const Set s = scope(f);
            Group* best = nullptr;
            double best_size = INFINITY;
            for (Group& g : groups) {
                Set both = g.vars;
                for (int32_t v : s) {
                    if (!has(both, v)) both.push_back(v);
                }
                const double t = product(both);
                if ((both.size() == g.vars.size() || t <= free) && t < best_size) {
                    best = &g;
                    best_size = t;
                }
            }
            if (!best) {
                groups.push_back({s, {f}});
                continue;
            }
            for (int32_t v : s) {
                if (!has(best->vars, v)) best->vars.push_back(v);
            }
            best->factors.push_back(f);
        }
        for (Group& g : groups) {
            Static s;
            s.dims.var = g.vars;  // in order once the tile is known
            s.factors.swap(g.factors);
            l.statics.push_back(std::move(s));
        }
    }

    // Entries of the copies that have to be spread over `tile`.
    double spread(const std::vector<Set>& sets, const Set& tile) const {
        double cost = 0.0;
        for (const Set& s : sets) {
            bool meets = false;
            double missing = 1.0;
            for (int32_t v : tile) {
                if (has(s, v)) {
                    meets = true;
                } else {
                    missing *= values(v);
                }
            }
            if (meets && missing > 1.0) cost += product(s) * missing;
        }
        return cost;
    }

    // The message up lies as rows of `tile` want it: its last variables are those of the tile.
    static bool direct_up(const Set& message, const Set& tile) {
        return message.size() >= tile.size() &&
               std::equal(tile.rbegin(), tile.rend(), message.rbegin());
    }
    double spread_up(const Set& up, const Set& tile) const {
        double size = product(tile);
        bool meets = false;
        for (int32_t v : up) {
            if (has(tile, v)) {
                meets = true;
            } else {
                size *= values(v);
            }
        }
        return meets ? size : 0.0;
    }

    void choose_tile(CliqueLayout& l, const Set& vars, const std::vector<Set>& separator) {
        const size_t c = static_cast<size_t>(&l - out_.clique.data());
        const Set& up = separator[c];
        Set tile;
        if (l.size <= kSmallClique) {
            tile = vars;
        } else {
            std::vector<Set> sets;
            for (const Child& k : l.children) {
                if (k.host < 0) sets.push_back(separator[k.clique]);
            }
            const double operands = 2.0 + static_cast<double>(sets.size() + l.statics.size());
            const bool root = t_.parent[c] < 0;
            double least = INFINITY;
            // Nanoseconds: of the rows, and of copies that have to be spread and gathered again.
            const auto consider = [&](const Set& t) {
                const double width = product(t);
                double cost = l.size / width * (3.0 + operands) + 0.15 * operands * l.size +
                              3.0 * spread(sets, t);
                if (!root && !direct_up(l.message.var, t)) cost += 3.0 * spread_up(up, t);
                if (cost < least) {
                    least = cost;
                    tile = t;
                }
            };
            const auto by_rank = [&](int32_t x, int32_t y) { return t_.rank[x] < t_.rank[y]; };
            // The last variables of the message up: it needs no copy then.
            Set t;
            for (size_t i = l.message.var.size(); i-- > 0 && product(t) < kRow;) {
                t.insert(t.begin(), l.message.var[i]);
                if (product(t) >= kLeastRow) consider(t);
            }
            // Greedily, the next variable the one that spreads least; late ones break ties, as
            // neighbours in the tree hold them too.
            if (!root) sets.push_back(up);
            t.clear();
            while (t.size() < vars.size() && product(t) < kRow) {
                int32_t best = -1;
                double best_cost = INFINITY;
                for (int32_t v : vars) {
                    if (has(t, v)) continue;
                    Set more = t;
                    more.push_back(v);
                    const double cost = spread(sets, more);
                    if (cost <= best_cost) {
                        best_cost = cost;
                        best = v;
                    }
                }
                t.push_back(best);
                if (product(t) < kLeastRow && t.size() < vars.size()) continue;
                Set sorted = t;
                std::sort(sorted.begin(), sorted.end(), by_rank);
                if (!root) sets.pop_back();
                consider(sorted);
                if (!root) sets.push_back(up);
            }
        }
        l.tile = tile;
        l.width = static_cast<int64_t>(product(tile));
        // Outermost the variables that most tables share: cut there, blocks seldom meet.
        if (l.size > kBlock) {
            while (product(l.cut) < kBlocks) {
                int32_t best = -1;
                double most = -1.0;
                for (int32_t v : vars) {
                    if (has(tile, v) || has(l.cut, v)) continue;
                    Set more = l.cut;
                    more.push_back(v);
                    double shared = covers(up, more) ? product(up) : 0.0;
                    for (const Child& k : l.children) {
                        const Set& s = separator[k.clique];
                        if (k.host < 0 && covers(s, more)) shared += product(s);
                    }
                    if (shared > most) {
                        most = shared;
                        best = v;
                    }
                }
                if (best < 0) break;
                l.cut.push_back(best);
            }
        }
        l.outer = l.cut;
        // Then the separator, so that what is sent up is collected place by place.
        if (t_.parent[c] >= 0) {
            for (int32_t v : l.message.var) {
                if (!has(tile, v) && !has(l.outer, v)) l.outer.push_back(v);
            }
        }
        for (int32_t v : vars) {
            if (!has(tile, v) && !has(l.outer, v)) l.outer.push_back(v);
        }
        l.rows = static_cast<int64_t>(product(l.outer));
        for (Static& s : l.statics) {
            const Set held = s.dims.var;
            bool meets = false;
            for (int32_t v : tile) meets = meets || has(held, v);
            Set order;
            for (int32_t v : l.outer) {
                if (has(held, v)) order.push_back(v);
            }
            if (meets) order.insert(order.end(), tile.begin(), tile.end());
            s.dims = dims(order);
            s.view = shape(order, s.dims, l);
        }
        for (int32_t v : l.alone) l.alone_tile = l.alone_tile || has(tile, v);
        if (t_.parent[c] >= 0) l.up = shape(l.message.var, l.message, l);
    }

    // How rows of l meet a table over `held` that lies as `d` says.
    View shape(const Set& held, const Dims& d, const CliqueLayout& l) const {
        View v;
        bool meets = false, all = true;
        for (int32_t t : l.tile) {
            if (has(held, t)) {
                meets = true;
            } else {
                all = false;
            }
        }
        v.scalar = !meets;
        v.size = d.size;
        if (!meets) return v;
        v.direct = all;
        int64_t stride = 1;
        for (size_t i = l.tile.size(); i-- > 0 && v.direct;) {
            v.direct = d.stride_of(l.tile[i]) == stride;
            stride *= d_.size(l.tile[i]);
        }
        if (!v.direct) {
            v.size = l.width;
            for (int32_t u : held) {
                if (!has(l.tile, u)) v.size *= d_.size(u);
            }
        }
        return v;
    }

    void account(CliqueLayout& l) {
        double operands = 1.0;
        for (const Static& s : l.statics) {
            out_.bytes +=
                8.0 * static_cast<double>(s.view.size) + 4.0 * static_cast<double>(l.rows);
            operands += 1.0;
        }
        // Messages up and down, their beliefs, and spread copies of both.
        const double up = static_cast<double>(l.message.size);
        out_.bytes += 3.0 * 8.0 * up + 4.0 * static_cast<double>(l.rows);
        if (!l.up.direct) out_.bytes += 2.0 * 8.0 * static_cast<double>(l.up.size);
        for (const Child& k : l.children) operands += k.host < 0;
        out_.flops += l.size * (2.0 * operands + 1.0);
    }

    // Offsets of rows, and of spread rows, in a table that lies as `d` says.
    void fill(const CliqueLayout& l, const Dims& d, View* v) const {
        const bool direct = v->scalar || v->direct;
        Set held;
        for (int32_t u : l.outer) {
            if (has(d.var, u)) held.push_back(u);
        }
        std::vector<int64_t> stride(l.outer.size());
        if (direct) {
            for (size_t i = 0; i < l.outer.size(); ++i) stride[i] = d.stride_of(l.outer[i]);
        } else {
            const Dims wide = dims(held);
            for (size_t i = 0; i < l.outer.size(); ++i) {
                stride[i] = wide.stride_of(l.outer[i]) * l.width;
            }
            v->base.resize(static_cast<size_t>(wide.size));
            std::vector<int64_t> own(held.size());
            for (size_t i = 0; i < held.size(); ++i) own[i] = d.stride_of(held[i]);
            walk(held, own, &v->base);
            std::vector<int64_t> in(l.tile.size());
            for (size_t i = 0; i < l.tile.size(); ++i) in[i] = d.stride_of(l.tile[i]);
            v->inner.resize(static_cast<size_t>(l.width));
            walk(l.tile, in, &v->inner);
        }
        v->at.resize(static_cast<size_t>(l.rows));
        walk(l.outer, stride, &v->at);
    }
    // out[i]: the offset of the i-th setting of vars, the last one fastest.
    void walk(const Set& vars, const std::vector<int64_t>& stride,
              std::vector<int32_t>* out) const {
        int64_t done = 1;
        (*out)[0] = 0;
        for (size_t i = vars.size(); i-- > 0;) {  // settings of the later variables are there
            const int64_t n = d_.size(vars[i]);
            for (int64_t x = 1; x < n; ++x) {
                const int32_t add = static_cast<int32_t>(x * stride[i]);
                const int32_t* from = out->data();
                int32_t* to = out->data() + x * done;
                for (int64_t j = 0; j < done; ++j) to[j] = from[j] + add;
            }
            done *= n;
        }
    }
    // For every run of `from`, its last variables.
    std::vector<int32_t> map(const Dims& from, const Dims& to, int64_t run) const {
        Set var = from.var;
        while (!var.empty() && from.stride[var.size() - 1] < run) var.pop_back();
        std::vector<int64_t> stride(var.size());
        for (size_t i = 0; i < var.size(); ++i) stride[i] = to.stride_of(var[i]);
        std::vector<int32_t> out(static_cast<size_t>(from.size / run));
        walk(var, stride, &out);
        return out;
    }

    const Graph& g_;
    const Domains& d_;
    const CliqueTree& t_;
    const std::vector<int64_t>& soft_;
    Layout& out_;
    std::vector<std::vector<int64_t>> factors_;

  public:
    // Views of children need the children's message layouts, which their parents give.
    void meet_children() {
        for (CliqueLayout& l : out_.clique) {
            if (l.size > kTooLarge) continue;
            for (Child& k : l.children) {
                const Dims& d = out_.clique[k.clique].message;
                for (size_t i = 0; i < d.var.size(); ++i) {
                    if (out_.seen_in[d.var[i]] == k.clique) k.shown = static_cast<int>(i) + 1;
                }
                if (k.host >= 0) {
                    const Dims& host = out_.clique[l.children[k.host].clique].message;
                    k.along = !host.var.empty() && d.stride_of(host.var.back()) == 1;
                    for (size_t i = host.var.size(); i-- > 0;) {
                        const int64_t stride = d.stride_of(host.var[i]);
                        if (stride != (k.along ? k.run : 0)) break;
                        k.run *= d_.size(host.var[i]);
                    }
                    out_.bytes += 4.0 * static_cast<double>(host.size / k.run);
                    continue;
                }
                k.view = shape(d.var, d, l);
                out_.bytes += 4.0 * static_cast<double>(l.rows);
                if (!k.view.direct) out_.bytes += 2.0 * 8.0 * static_cast<double>(k.view.size);
            }
        }
    }
};

}  // namespace

Layout measure(const Graph& g, const Domains& d, const CliqueTree& t,
               const std::vector<int64_t>& soft) {
    Layout out;
    Planner p(g, d, t, soft, &out);
    p.measure();
    p.meet_children();
    p.predict();
    p.schedule();
    out.width = std::min(out.width, t.width);
    return out;
}

Status complete(const Graph& g, const Domains& d, const CliqueTree& t, Layout* layout,
                std::vector<Query>* queries, const PoolApi& pool, int threads, Control* control) {
    return Planner(g, d, t, {}, layout).complete(queries, pool, threads, control);
}

}  // namespace vs::junction
