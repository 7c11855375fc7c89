"""A trainer that tells one line an iteration: sklearn-crfsuite's."""

from __future__ import annotations

from typing import Any

from valuesparse.crf.training.trainer import Trainer

__all__ = ["LinePerIterationTrainer"]


class LinePerIterationTrainer(Trainer):
    """Prints one line an iteration when it is verbose."""

    def on_iteration(self, log: str, info: dict[str, Any] | None) -> None:
        """Print how an iteration went."""
        if info is None:
            return
        parts = [f"Iter {info['num']:<3}"]
        for key, text in (
            ("time", "time={:<5.2f}"),
            ("loss", "loss={:<8.2f}"),
            ("active_features", "active={:<5}"),
            ("avg_precision", "precision={:.3f}"),
            ("avg_recall", "recall={:.3f}"),
            ("avg_f1", "F1={:.3f}"),
            ("item_accuracy_float", "item accuracy={:.3f}"),
            ("instance_accuracy_float", "sequence accuracy={:.3f}"),
            ("feature_norm", "feature_norm={:<8.2f}"),
        ):
            if key in info:
                parts.append(text.format(info[key]))
        print("  ".join(parts).rstrip())
