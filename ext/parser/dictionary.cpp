#include "parser/dictionary.h"

#include <algorithm>
#include <atomic>

#include "parser/worker.h"

namespace vs::parser {
namespace {

struct Met {
    uint32_t key, count;
    uint16_t slots;  // none: nobody is here
};

// The keys of a template: a table with open addressing, at most half full.
class Counts {
  public:
    // True: the key is a new one.
    bool add(uint32_t key, uint16_t slots) {
        if (2 * size_ >= static_cast<int64_t>(table_.size())) grow();
        Met& m = *find(key);
        const bool fresh = m.slots == 0;
        m.key = key;
        m.count += m.count != UINT32_MAX;
        m.slots = static_cast<uint16_t>(m.slots | slots);
        size_ += fresh;
        return fresh;
    }
    void list(uint32_t least, Found* found) {
        const auto rare = [&](const Met& m) { return m.slots == 0 || m.count < least; };
        table_.erase(std::remove_if(table_.begin(), table_.end(), rare), table_.end());
        std::sort(table_.begin(), table_.end(),
                  [](const Met& a, const Met& b) { return a.key < b.key; });
        for (const Met& m : table_) {
            found->keys.push_back(m.key);
            found->counts.push_back(m.count);
            found->slots.push_back(m.slots);
        }
        table_ = {};
    }

  private:
    Met* find(uint32_t key) {
        const size_t mask = table_.size() - 1;
        size_t i = key & mask;
        while (table_[i].slots && table_[i].key != key) i = (i + 1) & mask;
        return &table_[i];
    }
    void grow() {
        std::vector<Met> old(std::max<size_t>(64, 2 * table_.size()), Met{0, 0, 0});
        old.swap(table_);
        for (const Met& m : old) {
            if (m.slots) *find(m.key) = m;
        }
    }

    std::vector<Met> table_;
    int64_t size_ = 0;
};

// A task counts every kShards-th template of a kind of part.
constexpr int64_t kShards = 8;

struct Counting {
    const Corpus& corpus;
    const Templates& templates;  // that tell keys whole
    const bool trees;
    const uint32_t least;
    Control* control;
    std::vector<Found>* found;
    std::vector<int64_t> begin;  // of each kind, its first template
    std::atomic<int64_t> keys{0};
    Shortage shortage{};

    void parts(int64_t i, Parts* parts, std::vector<int32_t>* modifier) const {
        const int64_t n = corpus.size(i);
        const Listed arcs = corpus.arcs(i);
        if (trees) {
            modifier->resize(at(n));
            for (int64_t m = 0; m < n; ++m) (*modifier)[at(m)] = static_cast<int32_t>(m + 1);
            parts->list_arcs(n, n, corpus.gold(i), modifier->data());
        } else if (arcs.head) {
            parts->list_arcs(n, arcs.count, arcs.head, arcs.modifier);
        } else {
            parts->list_arcs(n);
        }
        if (templates.order > 1) parts->list_pairs();
        if (templates.order < 3) return;
        parts->list_nonprojective();
        auto& all = parts->nonprojective;
        const auto no = [&](int32_t a) { return !parts->crosses(corpus.gold(i), a); };
        if (trees) all.erase(std::remove_if(all.begin(), all.end(), no), all.end());
    }

    static void run(void* context, int64_t task, int) {
        Counting& job = *static_cast<Counting*>(context);
        job.shortage.watch(job.control, [&] { job.count(task); });
    }
    void count(int64_t task) {
        Counting& job = *this;
        const auto kind = static_cast<Kind>(task / kShards);
        const int64_t shard = task % kShards, first = job.begin[at(task / kShards)];
        const int64_t size = job.templates.sets[at(task / kShards)].size();
        std::vector<Counts> counts(at(size));
        Scorer scorer(job.templates);
        Parts parts;
        std::vector<int32_t> modifier;
        Keys keys;
        const auto add = [&](const int32_t* nodes) {
            scorer.keys(kind, nodes, &keys);
            const auto slots = static_cast<uint16_t>(1u | 1u << keys.a | 1u << keys.b);
            int64_t fresh = 0;
            for (int64_t k = 0; k < keys.count; ++k) {
                if (keys.of[k] % kShards != shard) continue;
                fresh += counts[keys.of[k]].add(keys.line[k], slots);
            }
            if (fresh) job.keys.fetch_add(fresh, std::memory_order_relaxed);
        };
        for (int64_t i = 0; i < job.corpus.sentences; ++i) {
            if (job.control->stop.load(std::memory_order_relaxed)) return;
            if (job.keys.load(std::memory_order_relaxed) > kMostKeys) return;
            job.parts(i, &parts, &modifier);
            scorer.read(job.corpus.sentence(i), job.corpus.size(i));
            if (kind == Kind::kSibling) {
                for (const Parts::Pair& p : parts.siblings) add(p.nodes);
            } else if (kind == Kind::kGrandparent) {
                for (const Parts::Pair& p : parts.grandparents) add(p.nodes);
            } else {
                const auto add_arc = [&](int64_t a) {
                    const int32_t nodes[3] = {parts.head[at(a)], parts.modifier[at(a)], -1};
                    add(nodes);
                };
                if (kind == Kind::kArc) {
                    for (int64_t a = 0; a < parts.arcs(); ++a) add_arc(a);
                } else {
                    for (const int32_t a : parts.nonprojective) add_arc(a);
                }
            }
        }
        for (int64_t t = shard; t < size; t += kShards) {
            counts[at(t)].list(job.least, &(*job.found)[at(first + t)]);
        }
    }
};

}  // namespace

Status count(const Corpus& corpus, int order, bool trees, uint32_t least, int threads,
             const PoolApi& pool, Control* control, std::vector<Found>* found, int64_t* met) {
    const Templates templates(order, Dictionary{});
    Counting job{corpus, templates, trees, least, control, found, {}};
    int64_t size = 0;
    for (const Set& set : templates.sets) {
        job.begin.push_back(size);
        size += set.size();
    }
    found->assign(at(size), {});
    const auto kinds = static_cast<int64_t>(templates.sets.size());
    pool.run_plan(Plan("features", kinds * kShards), Counting::run, &job, threads, control);
    *met = job.keys.load();
    return job.shortage.status(control);
}

}  // namespace vs::parser
