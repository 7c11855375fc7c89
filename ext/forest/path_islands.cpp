// Islands of chains: long sequences on the whole pool, then the others side by side.
#include <algorithm>
#include <iterator>
#include <new>

#include "core/sum.h"
#include "forest/call.h"
#include "forest/path.h"
#include "forest/worth.h"
#include "islands/on_pool.h"

namespace vs {
namespace {

// Those of a sequence that was answered exactly.
Counts counts_without(int64_t length) {
    Counts own;
    own.segments = own.without = 1;
    own.full = 2 * (length - 1);
    own.sparse = 2;  // into the ends
    return own;
}

// Sequences laid end to end, on which the machine works at once.
class Group {
  public:
    // Sequences order[0, m), which follow one another in memory. Arrays come from `memory`.
    // `some`: (m,) which of them may have islands; null: all.
    Group(const Pass& pass, const int64_t* order, int64_t m, bool alone, Scratch& memory,
          const uint8_t* some = nullptr)
        : order_(order), m_(m) {
        static_cast<Pass&>(p_) = pass;
        const Chains& c = p_.model.arrays;
        const int64_t begin = c.offset[order[0]], n = c.offset[order[m - 1] + 1] - begin;
        if (!state_.open(n, m, memory)) return;
        int32_t* tree = memory.array<int32_t>(n);
        int64_t* edge = memory.array<int64_t>(m);
        state_.status = memory.array<std::atomic<int32_t>>(m);
        state_.of_tree = alone ? nullptr : memory.array<Counts>(m);
        p_.f = memory.array<const void*>(3 * n);
        p_.own_f = memory.array<void*>(2 * n);
        p_.scale_f = memory.array<double>(4 * n);
        p_.added = memory.array<float>(n);
        p_.part = memory.array<IslandPart>(n / kTallied + m);
        p_.made = memory.array<uint8_t>(m);
        if (memory.failed || (alone && !state_.count_trees(1, memory))) return;
        // Not by blocks: an island next to a block writes that of its neighbour.
        std::fill_n(p_.scale_f, 2 * n, 0.0);
        for (int64_t t = 0, q = 0; t < m; ++t) {
            const int64_t s = order[t], end = q + length(c, s);
            new (state_.status + t) std::atomic<int32_t>(!some || some[t] ? kOk : kWithout);
            if (!alone) new (state_.of_tree + t) Counts();
            edge[t] = c.edge[s] - q - 1;
            std::fill(tree + q, tree + end, static_cast<int32_t>(t));
            for (; q < end; q = p_.part[n_parts_++].last) {
                p_.part[n_parts_] = {q, std::min(q + kTallied, end), 0.0, 0.0};
            }
        }
        p_.state = &state_;
        std::fill_n(p_.made, m, uint8_t{0});
        p_.order = order;
        p_.n_sequences = m;
        p_.begin = begin;
        p_.tree = tree;
        p_.edge = edge;
        p_.b = p_.f + n;
        p_.row = p_.f + 2 * n;
        p_.own_b = p_.own_f + n;
        p_.scale_b = p_.scale_f + n;
        p_.mass = p_.scale_f + 2 * n;
        p_.shift = p_.scale_f + 3 * n;
        ok = true;
    }
    bool ok = false;

    Path path(int64_t span) const { return {p_.tree, state_.n, span > 0 ? span : state_.n}; }
    int64_t n_parts() const { return n_parts_; }
    PathIslands& pass() { return p_; }
    // `here`: may those that are not worth their islands be answered at once?
    void choose(WorthOfGroup& worth, bool here) {
        worth.choose(state_, p_.tree, p_.begin, here ? p_.made : nullptr);
    }
    // Writes the answers, unless the call was stopped. `without`: gets the sequences that are not
    // worth their islands, or gave them up, and have no answer yet.
    void finish(Counts& counts, std::vector<int64_t>* without) {
        const Chains& c = p_.model.arrays;
        Counts done;
        for (int64_t t = 0, p = 0; t < m_; ++t) {
            const int64_t first = p_.part[p].first;
            Sum total;
            double added = 0.0;
            for (; p < n_parts_ && p_.tree[p_.part[p].first] == t; ++p) {
                total.add(p_.part[p].log_mass);
                added += p_.part[p].added;
            }
            if (p_.arithmetic == kLinear32 && added > 1e-7) widen(t);
            const int32_t status = state_.status[t].load();
            if (status == kWithout) {
                if (!p_.made[t]) {
                    without->push_back(order_[t]);
                } else if (p_.status[order_[t]] == kOk) {
                    add(counts, counts_without(length(c, order_[t])));
                }
                continue;
            }
            p_.status[order_[t]] = status;
            if (status != kOk) continue;
            p_.log_z[order_[t]] = total.total();
            std::copy_n(state_.held + first, length(c, order_[t]),
                        p_.islands + c.offset[order_[t]]);
            if (state_.of_tree) add(counts, state_.of_tree[t]);
            counts.sparse += 2;  // into the ends
        }
        count_islands(path(0), state_, done);
        if (state_.of_tree || state_.status[0].load() == kOk) add(counts, done);
    }

  private:
    void widen(int64_t t) {
        int32_t ok = kOk;
        state_.status[t].compare_exchange_strong(ok, kWiden);
    }
    static constexpr int64_t kTallied = 4096;
    const int64_t* order_;
    int64_t m_, n_parts_ = 0;
    IslandState state_;
    PathIslands p_{};
};

// The question of a group when it knows the islands by local factors.
struct Choice {
    WorthOfGroup* worth;
    Group* group;
    bool here;
    static void make(void* of, IslandState&) {
        Choice& c = *static_cast<Choice*>(of);
        c.group->choose(*c.worth, c.here);
    }
};

}  // namespace

void PathCall::islands_abreast(std::vector<int64_t>& order, bool alone) {
    const int64_t most = alone ? kMostInStretches : kLeastLabels - 1;
    if (c_.n_labels > most || is_log(arithmetic_)) return;
    std::vector<int64_t> some;
    std::copy_if(order.begin(), order.end(), std::back_inserter(some),
                 [&](int64_t s) { return (length(c_, s) > kLongestLane) == alone; });
    const int64_t n = static_cast<int64_t>(some.size());
    if (n < (alone ? 1 : 2)) return;
    const std::vector<int64_t> sorted = by_length(some);
    const ForestPlan whole = plan_islands(c_, sorted, r_.threads, alone ? 1 : 16);
    const Tasks& tasks = whole.tasks;
    std::vector<Counts> counts(at(n));
    PathPass p;
    fill(p);
    p.order = sorted.data();
    p.counts = counts.data();
    p.scratch = session_.temporary();
    for (int64_t s : order) status_[at(s)] = kWithout;
    run(through(tasks.view("islands"), sorted), threads_for(whole.nanoseconds, r_.threads),
        [&](int64_t task, int worker) {
            level().run(&p,
                        {Verb::kPathIslands, tasks.kind(task), tasks.item(task), worker, nullptr});
        });
    for (int64_t i = 0; i < n; ++i) {
        if (status_[at(sorted[at(i)])] != kOk) continue;
        counts[at(i)].sparse += 2;  // into the ends
        add(report_.counts, counts[at(i)]);
    }
    std::vector<int64_t> left;
    for (int64_t s : order) {
        if (status_[at(s)] != kOk) left.push_back(s);
    }
    order.swap(left);
}

void PathCall::find_islands() {
    const Chains& c = c_;
    std::vector<int64_t> order(order_), without;
    const bool choose = c.n_labels >= kLeastLabels;  // whether any may be answered exactly
    const std::vector<char> turned = choose ? turned_tables(r_.model) : std::vector<char>();
    if (!choose && c.n_positions > kLongestLane) {
        WorthOfGroup worth(r_, turned);
        const auto has = [&](int64_t s) {
            return !may_lack_islands(c.n_labels, length(c, s), false) || worth.may_be(s);
        };
        const auto kept = std::stable_partition(order.begin(), order.end(), has);
        without.assign(kept, order.end());
        order.erase(kept, order.end());
    }
    if (!order.empty()) islands_abreast(order, true);
    if (control_.stop.load()) return;
    Pass pass;
    fill(pass);
    const auto call_of = [&](Group& group, int64_t span) {
        return island_call(group.path(span), level().path_islands(arithmetic_), group.pass(),
                           group.n_parts());
    };
    // A third of an exact pass is a fair guess of what islands leave to do.
    const double cost = position_cost(c.n_labels) * (is_log(arithmetic_) ? 10.0 : 0.35);
    double total = 0.0;
    for (int64_t s : order) total += cost * static_cast<double>(length(c, s));
    // Long chains first, each on all threads; the rest in the order of memory. They are weighed by
    // the work if few islands are found: then threads are needed most.
    const double full = cost / 0.35;
    const double worth = std::max(30e3, full / cost * total / (2.0 * r_.threads));
    const auto is_long = [&](int64_t s) {
        const int64_t n = length(c, s);
        return n * c.n_labels * bytes(c.dtype) > (int64_t{4} << 20) ||
               (r_.threads > 1 && full * static_cast<double>(n) > worth);
    };
    const auto middle = std::stable_partition(order.begin(), order.end(), is_long);
    const size_t n_long = static_cast<size_t>(middle - order.begin());
    Scratch& serial = session_.packing;
    for (size_t i = 0; i < n_long; ++i) {
        // Several blocks per thread, of 5 to 100 microseconds of exact work.
        const int64_t even = length(c, order[i]) / (8 * r_.threads) + 1;
        const int64_t span = std::min(std::max(even, static_cast<int64_t>(5e3 / full) + 1),
                                      static_cast<int64_t>(100e3 / full) + 1);
        const int64_t s = order[i];
        if (choose && !worth_islands(r_, turned, s, s + 1, control_)[0]) {
            without.push_back(s);
            continue;
        }
        for (int w = 0; w < r_.threads; ++w) session_.keep()[w].reset();
        const Scratch::Mark mark = serial.mark();
        Group group(pass, &order[i], 1, true, serial);
        if (!group.ok) control_.stop.store(2);
        if (group.ok) {
            auto call = call_of(group, span);
            const Scratch::Mark before = serial.mark();
            islands_on_pool(pool(), call, r_.revisit, r_.threads, session_.temporary(), serial);
            serial.rewind(before);
        }
        if (control_.stop.load()) return;
        group.finish(report_.counts, &without);
        serial.rewind(mark);
    }
    std::vector<int64_t> rest(middle, order.end());
    islands_abreast(rest, false);
    if (control_.stop.load()) return;
    order.resize(n_long);
    order.insert(order.end(), rest.begin(), rest.end());
    const double target = std::min(std::max(total / 128.0, 10e3), 2e6);
    // Sequences side by side share what is read of a table; every thread has some tasks.
    constexpr size_t kSideBySide = 16, kTasks = 4;
    const size_t least =
        std::clamp((order.size() - n_long) / (kTasks * at(r_.threads)), size_t{1}, kSideBySide);
    Tasks tasks;
    for (size_t i = n_long; i < order.size();) {
        double sum = 0.0;
        size_t j = i;
        while (j < order.size() && (sum < target || j - i < least)) {
            sum += cost * static_cast<double>(length(c, order[j++]));
        }
        tasks.add(TaskKind::kSequences, static_cast<int64_t>(i), static_cast<int64_t>(j), 0.0);
        i = j;
    }
    std::vector<Counts> counts(at(r_.threads));  // one per worker
    std::vector<std::vector<int64_t>> left(at(r_.threads));
    std::vector<std::unique_ptr<WorthOfGroup>> chooser;
    for (int w = 0; choose && w < r_.threads; ++w) {
        chooser.emplace_back(new WorthOfGroup(r_, turned));
    }
    // Sequences of a task: as many as keep their local factors in cache; where tables
    // do not, up to 16 share what is read of them.
    const auto work = [&](int64_t task, int worker) {
        constexpr int64_t kMost = 128, kBytes = 256 * 1024, kTables = 4;
        const auto [first, last] = tasks.item(task);
        const int64_t row = c.n_labels * bytes(computes());
        Scratch& keep = session_.keep()[worker];
        keep.reset();
        for (int64_t i = first, m; i < last; i += m) {
            const int64_t begin = c.offset[order[at(i)]];
            for (m = 1; m < kMost && i + m < last; ++m) {
                const int64_t end = c.offset[order[at(i + m - 1)] + 1];
                if (c.offset[order[at(i + m)]] != end) break;
                const int64_t held = (end - begin) * row, worth = kTables * c.n_labels * row;
                if (held >= kBytes && (m >= int64_t{kSideBySide} || held >= worth)) break;
            }
            uint8_t some[kMost] = {};  // which may be worth their islands
            bool any = false;
            try {  // an exception must not leave a worker of the pool
                for (int64_t t = 0; t < std::min(m, kMost); ++t) {
                    some[t] = !choose || chooser[at(worker)]->may_be(order[at(i + t)]);
                    any |= some[t] != 0;
                }
                for (int64_t t = 0; !any && t < m; ++t)
                    left[at(worker)].push_back(order[at(i + t)]);
            } catch (const std::bad_alloc&) {
                control_.stop.store(2);
                return;
            }
            if (!any) continue;
            const Scratch::Mark mark = keep.mark();
            Group group(pass, &order[at(i)], m, false, keep, some);
            if (group.ok) {
                auto call = call_of(group, 0);
                Choice choice{choose ? chooser[at(worker)].get() : nullptr, &group, !edges_};
                if (choose) {
                    call.choose = Choice::make;
                    call.of = &choice;
                }
                islands_alone(call, r_.revisit, worker, session_.temporary()[worker]);
            } else {
                control_.stop.store(2);
            }
            if (control_.stop.load()) return;
            try {
                group.finish(counts[at(worker)], &left[at(worker)]);
            } catch (const std::bad_alloc&) {
                control_.stop.store(2);
            }
            keep.rewind(mark);
        }
    };
    run(through(tasks.view("islands"), order), threads_for(total, r_.threads), work);
    for (const Counts& w : counts) add(report_.counts, w);
    for (const auto& some : left) without.insert(without.end(), some.begin(), some.end());
    if (without.empty() || control_.stop.load()) return;
    std::sort(without.begin(), without.end());
    exact(without, true);
    for (int64_t s : without) {
        if (status_[at(s)] == kOk) add(report_.counts, counts_without(length(c, s)));
    }
}

}  // namespace vs
