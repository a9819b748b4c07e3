"""Counts in Prometheus' text format."""

from __future__ import annotations

from collections import Counter, defaultdict

_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Metrics:
    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._buckets: Counter[tuple[str, float]] = Counter()
        self.running = 0
        self.waiting = 0

    def finished(self, model: str, status: int, prompt: int, answer: int, seconds: float) -> None:
        """`model` is one that is served, or empty: what a request says must not become a label."""
        model = model.translate(_ESCAPES)
        self._requests[model, status] += 1
        self._tokens[model, "prompt"] += prompt
        self._tokens[model, "answer"] += answer
        self._seconds[model] += seconds
        for bound in _BOUNDS:
            self._buckets[model, bound] += seconds <= bound

    def text(self) -> str:
        lines = _head(
            "expert_requests_total", "counter", "Finished requests by HTTP status; 499 is cancelled."
        )
        for (model, status), count in sorted(self._requests.items()):
            lines.append(f'expert_requests_total{{model="{model}",status="{status}"}} {count}')
        lines += _head(
            "expert_tokens_total", "counter", "Tokens of prompts that a model read, and of answers."
        )
        for (model, kind), count in sorted(self._tokens.items()):
            lines.append(f'expert_tokens_total{{model="{model}",kind="{kind}"}} {count}')
        lines += _head("expert_requests_running", "gauge", "Requests that are being answered.")
        lines.append(f"expert_requests_running {self.running}")
        lines += _head("expert_requests_waiting", "gauge", "Requests that wait for a slot.")
        lines.append(f"expert_requests_waiting {self.waiting}")
        lines += _head("expert_request_seconds", "histogram", "Time from a request to the end of its answer.")
        for model in sorted(self._seconds):
            for bound in _BOUNDS:
                count = self._buckets[model, bound]
                lines.append(f'expert_request_seconds_bucket{{model="{model}",le="{bound}"}} {count}')
            count = sum(count for (name, _), count in self._requests.items() if name == model)
            lines.append(f'expert_request_seconds_bucket{{model="{model}",le="+Inf"}} {count}')
            lines.append(f'expert_request_seconds_sum{{model="{model}"}} {self._seconds[model]:.6f}')
            lines.append(f'expert_request_seconds_count{{model="{model}"}} {count}')
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
