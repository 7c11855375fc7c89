// Training a linear-chain CRF: the negative log-likelihood of a corpus and its gradient.
//
// The corpus is cut into blocks, a block into chunks of whole sequences. Per block:
//   1. each chunk: unary = F w by sparse rows, forward-backward by the forest engine (marginals and
//      summed edge marginals in one pass), marginals -= gold, loss summed;
//   2. each range of attributes: gradient += F^T (marginals - gold), items in corpus order.
// Blocks, chunks and ranges depend on the data alone and every sum has a fixed order: the number
// of threads cannot show in the result. No gradient is copied per thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "forest/request.h"
#include "rows/sparse_table.h"
#include "crf/online.h"

namespace vs::crf {

// Views of validated arrays that outlive the engine.
struct Corpus {
    int64_t n_labels = 0, n_attributes = 0, n_items = 0, n_sequences = 0, n_states = 0;
    const int64_t* item = nullptr;    // (n_items + 1,) first attribute of each item
    const int32_t* id = nullptr;      // attributes, item after item
    const double* value = nullptr;    // their values, or null: all 1
    const int64_t* offset = nullptr;  // (n_sequences + 1,) first item of each sequence
    const int64_t* edge = nullptr;    // (n_sequences + 1,) first edge of each sequence
    const int32_t* gold = nullptr;    // (n_items,) labels, or -1: one of a set
    const int64_t* first = nullptr;   // (n_attributes + 1,) first state feature of each attribute
    const int32_t* label = nullptr;   // (n_states,) its label, ascending in an attribute
    // Transitions that have a weight, by the label before and the one after: the weight of pair e
    // is n_states + e.
    const int64_t* source = nullptr;  // (K + 1,) first pair of each label before
    const int32_t* target = nullptr;  // (source[K],) the label after
    // Where not all labels are known: the set of each item without one, empty: any label.
    const int64_t* set = nullptr;     // (n_items + 1,) where it begins, or null: all are known
    const int32_t* member = nullptr;  // its labels
    // Constraints, each of which may be null: pairs (K, K) that must not follow each other, and
    // scores (K,) of the first and the last label, 0 or -inf.
    const uint8_t* banned = nullptr;
    const double *start = nullptr, *end = nullptr;

    // The weight of a transition, or -1: none.
    int64_t weight_of(int64_t before, int64_t after) const;
};

// Sequences that go in float32: those whose scores, of an item and of a transition together, are at
// most `most`; what they are, and which sequences went so, is told for each.
struct Narrow {
    const double* most = nullptr;  // (B,), below 0: never
    double* scores = nullptr;      // (B,)
    uint8_t* went = nullptr;       // (B,)
};

struct Evaluation {
    Status status = kOk;
    double loss = 0.0;
    int64_t overflow = -1;  // an item whose scores are too large to use, or -1
};

// The evaluator shares these with online learners: the score of labels `gold` (n,), and a batch of
// chains with scores `unary` (N, K) and `table` (K, K).
double gold_score(const int32_t* gold, int64_t n, int64_t K, const double* unary,
                  const double* table);
Chains chains_of(const Corpus& corpus, const double* unary, const double* table,
                 const int64_t* offset, const int64_t* edge, int64_t n_positions,
                 int64_t n_sequences);

class Evaluator {
  public:
    explicit Evaluator(const Corpus& corpus);

    // loss = sum over sequences of log Z - score of the gold labels, or log Z of those that agree
    // with what is known; gradient (n_weights,) is overwritten; null: not wanted. `narrow`: null
    // where all go in float64.
    Evaluation evaluate(const double* w, int64_t n_weights, double* gradient, int threads,
                        const Narrow* narrow, Control& control);
    // The best labels (n_items,) of every sequence.
    Evaluation decode(const double* w, int64_t* states, int threads, Control& control);

    // Scores of one sequence: (n, K) unary.
    void score_sequence(int64_t sequence, const double* w, double* unary) const;
    // Sum of residual (n, K) times attribute values, by feature; features are appended once each.
    void pull(int64_t sequence, const double* residual, std::vector<int64_t>& features,
              std::vector<double>& values);
    // (K, K), 0 where there is no weight, -inf where it is banned.
    void transitions(const double* w, double* table) const;
    // Whether a sequence has items without a label; which labels items [first, first + n) may have.
    bool partial(int64_t sequence) const {
        return c_.set && partial_[static_cast<size_t>(sequence)];
    }
    void mask(int64_t first, int64_t n, uint8_t* allowed) const;

    // One pass of an online learner over the sequences `order`.
    OnlinePass learn(const OnlineRule& rule, OnlineState& to, const int64_t* order, int64_t count,
                     int64_t n_weights, Control& control);
    OnlinePass descend(Descent& to, const int64_t* order, int64_t count, int64_t n_weights,
                       Control& control);

    static const PoolApi* pool;
    static const ForestApi* forests;

  private:
    struct SequenceBlock {
        int64_t first, last;                    // sequences
        std::vector<int64_t> chunk;             // first sequence of each chunk, and the end
        std::vector<int64_t> attribute_ranges;  // into `attributes`
        std::vector<int32_t> attributes;        // that occur in the block
        std::vector<int64_t> begin;             // into `at`, of each of them, and the end
        std::vector<int32_t> at;                // items, counted from the first of the block
        std::vector<double> value;              // or empty: all 1
    };
    struct Job;
    struct Chunk;
    void cut();
    void list_pairs();
    int64_t sum_of(int64_t before, int64_t after) const;  // of a pair, or -1
    double gold_score(int64_t sequence, const double* unary) const;
    Evaluation run_blocks(const double* w, double* gradient, int64_t* states, int threads,
                          const Narrow* narrow, Control& control);
    void transpose(SequenceBlock& block, std::vector<int64_t>& count);
    void spread(const double* w);
    // kRows: weights of many labels are read from rows_, which `spread` has filled.
    template <bool kRows>
    void score_items(int64_t first, int64_t last, const double* w, double* unary) const;
    void chunk_task(Job& job, int64_t task, int worker);
    Request request_of(const double* unary, const int64_t* offset, const int64_t* edge, int64_t n,
                       int64_t sequences, double* sums) const;
    bool ask(Job& job, const Request& q, int64_t item, int worker);
    bool answer(Job& job, const Chunk& chunk, bool narrow, int worker);
    bool withdraw(Job& job, const Chunk& chunk, int64_t first, int64_t last, int worker,
                  double* loss);
    void range_task(Job& job, int64_t task);

    Corpus c_;
    int64_t stride_;  // of dense rows
    // Where few transitions have a weight: these; all others are 0.
    bool few_pairs_ = false, reads_pairs_ = false;  // the latter: messages read them alone
    SparseTable pairs_;
    std::vector<int64_t> pair_weight_;  // of each of them, or -1: it is banned
    int64_t n_sums_ = 0;                // of a chunk
    // Where the weights of an attribute are: `row` in rows_, or kFull or kSparse.
    static constexpr int32_t kSparse = -1, kFull = -2;
    struct WeightRow {
        int64_t first;
        int32_t count, row;
    };
    std::vector<WeightRow> place_;
    std::vector<int32_t> dense_attributes_;
    std::vector<double> rows_;
    std::vector<double> table_;  // transitions, where messages read all
    std::vector<float> narrow_table_;
    double largest_pair_ = 0.0;  // magnitude of a transition
    std::vector<SequenceBlock> blocks_;
    int64_t largest_chunk_ = 0, largest_block_ = 0, most_chunks_ = 0;
    std::vector<double> marginals_;  // of a block
    std::vector<std::vector<double>> unary_;
    std::vector<std::vector<float>> narrow_;  // of a worker: scores and marginals
    std::vector<double> sums_, log_z_, chunk_loss_;
    std::vector<char> marked_, partial_;
    std::vector<double> pulled_;
    friend class OnlineLearner;
};

}  // namespace vs::crf
