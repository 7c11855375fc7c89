#include "forest/worth.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "forest/call.h"
#include "forest/likely_rows.h"

namespace vs {
namespace {

double share(int64_t some, int64_t of) {
    return of > 0 ? static_cast<double>(some) / static_cast<double>(of) : 0.0;
}

bool is_short(int64_t length) { return length <= 2 * Around::kSample; }

// How much of a path counts: `local` of its n variables are likely islands, some of which, and some
// of the others, were asked. Each kind stands for all of its kind.
struct Strata {
    int64_t asked[2] = {0, 0}, likely[2] = {0, 0};  // others, likely islands
    bool enough(int64_t local, int64_t n, double from) const {
        const double hold = share(likely[1], asked[1]), others = share(likely[0], asked[0]);
        const double islands = asked[1] > 0 ? hold - kContested * (1.0 - hold) : 1.0;
        const double count =
            islands * static_cast<double>(local) + others * static_cast<double>(n - local);
        return count >= from * static_cast<double>(n);
    }
};

// Whole components, some of whose variables are looked at.
class Sample {
  public:
    Sample(const Request& r, const char* turned, int64_t first, int64_t last)
        : r_(r),
          trees_(r.model.layout != nullptr),
          begin_(trees_ ? 0 : r.model.arrays.offset[first]),
          n_(trees_ ? r.model.arrays.n_positions : r.model.arrays.offset[last] - begin_),
          mode_(at(n_), -1),
          component_(at(n_), 0),
          wanted_(at(n_), 0),
          sampled_(at(n_), 0),
          count_(new Count[at(last - first)]),
          n_components_(last - first),
          zeros_(at(r.model.arrays.n_labels), 0.0),
          scores_(r, begin_, n_, component_.data(), mode_.data(), turned, zeros_.data()) {
        const Chains& c = r.model.arrays;
        for (int64_t s = first; !trees_ && s < last; ++s) {
            std::fill(component_.begin() + (c.offset[s] - begin_),
                      component_.begin() + (c.offset[s + 1] - begin_),
                      static_cast<int32_t>(s - first));
        }
        for (int64_t i = 0; i < n_; ++i) {
            if (trees_) component_[at(i)] = scores_.tree.tree[r.model.layout->slot[at(i)]];
            ++count_[component_[at(i)]].size;
        }
        std::vector<uint8_t> edges(trees_ ? at(n_) : 0, 0);  // of each slot, up to 3
        const auto meet = [&](int32_t slot) {
            uint8_t& own = edges[at(slot)];
            if (++own > 2) count_[scores_.tree.tree[slot]].branches = true, own = 2;
        };
        for (int32_t q = 0; trees_ && q < n_; ++q) {
            if (scores_.tree.parent[q] < 0) continue;
            meet(q);
            meet(scores_.tree.parent[q]);
        }
    }

    template <class Run>
    std::vector<uint8_t> answer(int workers, Run run) {
        memory_.assign(at(workers), std::vector<double>(TwoLists::size(r_.model.arrays.n_labels)));
        look_at_paths();
        for (int64_t i = 0; i < n_; ++i) {
            Count& count = count_[component_[at(i)]];
            if (!count.open) continue;
            const bool sampled = scores_.is_sampled(i, count.size);
            if (!sampled && !count.all_asked()) continue;
            sampled_[at(i)] = sampled;
            wanted_[at(i)] = 1;
            count.sampled += sampled;
            if (sampled) {
                scores_.each_edge(i, [&](int64_t, int64_t other, bool) { wanted_[at(other)] = 1; });
            }
        }
        pass(
            run,
            [&](int64_t i, TwoLists& lists) {
                if (wanted_[at(i)]) lists.list[0].add(i, scores_.alone(i, lists.list[0]));
            },
            [&](int64_t i, int state) { mode_[at(i)] = state; }, true);
        for (int64_t i = 0; i < n_; ++i) {
            Count& count = count_[component_[at(i)]];
            count.local += (sampled_[at(i)] || count.all_asked()) && mode_[at(i)] >= 0;
            if (!sampled_[at(i)]) continue;
            count.near += scores_.is_near(i);
            count.islands += mode_[at(i)] >= 0;
        }
        std::vector<uint8_t> out(at(n_components_));
        bool any = false;
        for (int64_t s = 0; s < n_components_; ++s) {
            Count& c = count_[s];
            const double from = worth_from(r_.model.arrays.n_labels, c.branches);
            out[at(s)] = c.always || (c.open && share(c.near, c.sampled) >= from);
            if (!c.branches &&
                share(c.local, c.all_asked() ? c.size : c.sampled) >= from + kPlenty) {
                out[at(s)] = c.open;
                c.open = false;
            }
            c.open = c.open && out[at(s)];
            any |= c.open;
        }
        if (!any || !scores_.has_tables()) return out;
        pass(
            run,
            [&](int64_t i, TwoLists& lists) {
                const Count& c = count_[component_[at(i)]];
                if (!sampled_[at(i)] || !c.open || !scores_.is_near(i)) return;
                scores_.add_beside(i, lists);
            },
            [&](int64_t i, int state) {
                Count& count = count_[component_[at(i)]];
                if (state < 0) return;
                count.likely[mode_[at(i)] >= 0].fetch_add(1, std::memory_order_relaxed);
            });
        for (int64_t s = 0; s < n_components_; ++s) {
            const Count& c = count_[s];
            if (!c.open) continue;
            const double from = worth_from(r_.model.arrays.n_labels, c.branches);
            const int64_t likely[2] = {c.likely[0].load(), c.likely[1].load()};
            const Strata strata{{c.sampled - c.islands, c.islands}, {likely[0], likely[1]}};
            out[at(s)] = c.branches
                             ? share(likely[0] + likely[1], c.sampled) >= from
                             : strata.enough(c.local, c.all_asked() ? c.size : c.sampled, from);
        }
        return out;
    }

  private:
    struct Count {
        int64_t size = 0, sampled = 0, local = 0, near = 0;
        bool branches = false;  // some variable has three neighbours
        bool open = true;
        bool always = false;                          // islands, whatever they cost
        int64_t islands = 0;                          // likely ones among the sampled
        std::atomic<int64_t> likely[2] = {{0}, {0}};  // that count: others, likely islands
        // Are all variables of a path asked for their modes, and not a sample?
        bool all_asked() const { return !branches && is_short(size); }
    };
    static constexpr int64_t kBlock = 2048;  // variables of a task

    // Closes the paths that cannot be worth their islands.
    void look_at_paths() {
        TwoLists lists(memory_[0].data(), r_.model.arrays.n_labels);
        std::vector<int64_t> path;  // its variables from one end to the other
        std::vector<int64_t> start(at(n_components_), 0);
        const auto is_end = [&](int64_t i, int64_t s) {
            int n = 0;
            if (trees_) scores_.each_edge(i, [&](int64_t, int64_t, bool) { ++n; });
            return trees_ ? n < 2 : i == 0 || component_[at(i - 1)] != s;
        };
        for (int64_t i = 0; i < n_; ++i) {
            const int64_t s = component_[at(i)];
            if (!count_[s].branches && is_end(i, s)) start[at(s)] = i;
        }
        for (int64_t s = 0; s < n_components_; ++s) {
            Count& count = count_[s];
            const int64_t K = r_.model.arrays.n_labels;
            count.always = !may_lack_islands(K, count.size, count.branches);
            if (count.always) count.open = false;
            if (!count.open || count.branches || count.size == 0) continue;
            path.assign(trees_ ? at(count.size) : 0, start[at(s)]);
            for (size_t k = 1; k < path.size(); ++k) {
                scores_.each_edge(path[k - 1], [&](int64_t, int64_t other, bool) {
                    if (k < 2 || other != path[k - 2]) path[k] = other;
                });
            }
            const auto variable = [&](int64_t k) {
                return trees_ ? path[at(k)] : start[at(s)] + k;
            };
            if (K < kLeastLabels) {
                count.always = scores_.has_plenty(count.size, variable, mode_.data(), lists);
                count.open = false;
            } else {
                count.open = scores_.may_be(count.size, variable, lists.list[0]);
            }
        }
    }
    // Has `f` add variables to lists; g(variable, state) for each.
    template <class Run, class F, class G>
    void pass(Run run, F f, G g, bool exactly = false) {
        run((n_ + kBlock - 1) / kBlock, [&](int64_t task, int worker) {
            TwoLists lists(memory_[at(worker)].data(), r_.model.arrays.n_labels);
            const int64_t last = std::min(n_, (task + 1) * kBlock);
            for (int64_t i = task * kBlock; i < last; ++i) {
                f(i, lists);
                for (RowList& list : lists.list) scores_.ask(list, i + 1 == last, g, exactly);
            }
        });
    }

    const Request& r_;
    const bool trees_;
    const int64_t begin_, n_;
    std::vector<int32_t> mode_, component_;
    std::vector<uint8_t> wanted_, sampled_;
    std::unique_ptr<Count[]> count_;
    const int64_t n_components_;
    const std::vector<double> zeros_;
    Around scores_;
    std::vector<std::vector<double>> memory_;  // of each worker
};

template <class T>
void transpose(const T* from, int64_t K, T* to) {
    constexpr int64_t kTile = 16;
    for (int64_t l = 0; l < K; l += kTile) {
        for (int64_t k = 0; k < K; ++k) {
            for (int64_t j = l; j < std::min(K, l + kTile); ++j) to[k * K + j] = from[j * K + k];
        }
    }
}

}  // namespace

std::vector<char> turned_tables(const ForestModel& m) {
    const Chains& c = m.arrays;
    const int64_t K = c.n_labels, tables = m.layout ? m.n_tables : 1;
    std::vector<char> out;
    if (tables * K > c.n_positions || c.per_edge || m.tables == Tables::kPerEdge) return out;
    const int64_t size = K * K * (c.dtype == kFloat32 ? 4 : 8);
    out.resize(at(tables * size));
    for (int64_t t = 0; t < tables; ++t) {
        const void* from = static_cast<const char*>(c.transition) + t * size;
        void* to = out.data() + t * size;
        if (c.dtype == kFloat32) {
            transpose(static_cast<const float*>(from), K, static_cast<float*>(to));
        } else {
            transpose(static_cast<const double*>(from), K, static_cast<double*>(to));
        }
    }
    return out;
}

std::vector<uint8_t> worth_islands(const Request& r, const std::vector<char>& turned, int64_t first,
                                   int64_t last, Control& control) {
    Sample sample(r, turned.empty() ? nullptr : turned.data(), first, last);
    return sample.answer(r.threads, [&](int64_t tasks, auto f) {
        const auto call = [](void* context, int64_t task, int worker) {
            (*static_cast<decltype(f)*>(context))(task, worker);
        };
        pool().run_plan(Plan("worth", tasks), call, &f, r.threads, &control);
    });
}

WorthOfGroup::WorthOfGroup(const Request& r, const std::vector<char>& turned)
    : r_(&r),
      turned_(turned.empty() ? nullptr : turned.data()),
      zeros_(at(r.model.arrays.n_labels), 0.0),
      space_(TwoLists::size(r.model.arrays.n_labels)) {}

bool WorthOfGroup::may_be(int64_t sequence) {
    const Chains& c = r_->model.arrays;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    if (one_.size() < at(n)) one_.resize(at(n), 0);
    const bool few = c.n_labels < kLeastLabels;
    if (few) mode_.assign(at(n), -1);
    const Around scores(*r_, begin, n, one_.data(), mode_.data(), turned_, zeros_.data());
    TwoLists lists(space_.data(), c.n_labels);
    const auto itself = [](int64_t at) { return at; };
    return few ? scores.has_plenty(n, itself, mode_.data(), lists)
               : scores.may_be(n, itself, lists.list[0]);
}

void WorthOfGroup::choose(IslandState& state, const int32_t* tree, int64_t begin, uint8_t* made) {
    const Around scores(*r_, begin, state.n, tree, state.held, turned_, zeros_.data());
    const double from = worth_from(r_->model.arrays.n_labels, false);
    TwoLists lists(space_.data(), r_->model.arrays.n_labels);
    for (int64_t first = 0, last; first < state.n; first = last) {
        int64_t sampled = 0, local = 0, near = 0;
        Strata strata;
        for (last = first; last < state.n && tree[last] == tree[first]; ++last) {
            local += state.island(last);
        }
        if (state.status[tree[first]].load() != kOk) continue;
        const int64_t n = last - first;
        if (is_short(n) && share(local, n) >= from + kPlenty) continue;
        if (!is_short(n)) local = 0;
        for (int64_t q = first; q < last; ++q) {
            if (!scores.is_sampled(q, n)) continue;
            ++sampled;
            ++strata.asked[state.island(q)];
            if (!is_short(n)) local += state.island(q);
            near += scores.is_near(q);
        }
        if (!is_short(n) && share(local, sampled) >= from + kPlenty) continue;
        bool worth = share(near, sampled) >= from;
        if (worth && scores.has_tables()) {
            for (int64_t q = first; q < last; ++q) {
                if (scores.is_sampled(q, n) && scores.is_near(q)) scores.add_beside(q, lists);
                const auto count = [&](int64_t i, int found) {
                    strata.likely[state.island(i)] += found >= 0;
                };
                for (RowList& list : lists.list) scores.ask(list, q + 1 == last, count);
            }
            worth = strata.enough(local, is_short(n) ? n : sampled, from);
        }
        if (worth) continue;
        state.status[tree[first]].store(kWithout);
        // A long one is cut, as where it is answered without a look at its local factors.
        const int64_t least = cut_rule().least;
        if (made && (least < 0 || n < least)) made[tree[first]] = 1;
    }
}

}  // namespace vs
