"""The compiled module: rows to packed tokens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict, final

SOURCES: str
ENCODER_VERSION: int
SUPERVISED: int
# The name of a lone column whose texts are the rows, as JSON.
JSON_COLUMN: str
# The name of the last column: why a row cannot be read, where it cannot.
BROKEN_COLUMN: str
BUILTIN_TEMPLATES: list[tuple[str, str]]

# Code, message, hint, rows, and the first places as a file and a line.
Problem = tuple[str, str, str | None, int, list[tuple[str, int]]]
Progress = Callable[[int, int, int], bool]
Oracle = Callable[[list[str]], Sequence[tuple[Sequence[int], Sequence[int]]]]

class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Ledger(TypedDict):
    name: str
    read: int
    used: int
    bad: int
    truncated: int
    split: int
    dropped_pieces: int
    dropped_tokens: int
    dropped_overlong: int
    dropped_unsupervised: int
    dropped_duplicate: int
    dropped_near: int
    dropped_short: int
    dropped_long: int
    dropped_mixture: int
    repeated: int
    unanswered: int
    thoughts_left_out: int
    parsed_dialogues: int
    interpreted: int
    eos_added: int
    tokens: int
    supervised: int
    bytes: int
    unused_fields: dict[str, int]

class Totals(TypedDict):
    rows: int
    documents: int
    tokens: int
    shared: int
    supervised: int

class NativeError(Exception):
    """Its arguments are `(code, message, problems, total)`."""

    args: tuple[str, str, list[Problem], int]

@final
class Tokenizer:
    @staticmethod
    def compile(json: bytes) -> bytes: ...
    @staticmethod
    def open(path: str) -> Tokenizer: ...
    def __new__(cls, compiled: bytes) -> Tokenizer: ...
    def encode(self, texts: list[str]) -> list[list[int]]: ...
    def encode_masked(self, text: str, spans: list[tuple[int, int]]) -> tuple[list[int], list[bool]]: ...
    def token_bytes(self, id: int) -> bytes | None: ...
    def frame(self) -> tuple[list[int], list[int]]: ...

@final
class Recipe:
    def __new__(
        cls,
        *,
        template: str,
        specials: Mapping[str, str],
        mapping: Mapping[str, str],
        parse_dialogue: bool,
        train_on: str,
        eos: Sequence[int],
        stops: Sequence[str],
        prefix: Sequence[int],
        suffix: Sequence[int],
        max_seq_length: int,
        overlong: str,
        deduplicate: bool,
        min_length: int | None,
        max_length: int | None,
        interpret: bool,
    ) -> Recipe: ...
    def turns(self, row: str) -> list[tuple[str, str]]: ...
    def render(
        self,
        messages: str,
        add_generation_prompt: bool,
        enable_thinking: bool | None = None,
        tools: str | None = None,
    ) -> tuple[str, list[tuple[int, int]]]: ...
    def show(
        self, row: str, coder: Tokenizer | Oracle
    ) -> tuple[str, list[tuple[int, int]], list[int], list[bool]]: ...

@final
class RowReader:
    def __new__(cls, mapping: Mapping[str, str]) -> RowReader: ...
    def read(self, row: str) -> tuple[str, str | None]: ...

@final
class Build:
    def problems(self) -> tuple[list[Problem], int]: ...
    def first_unanswered(self) -> tuple[str, int] | None: ...
    def first_thoughts_left_out(self) -> tuple[str, int] | None: ...
    def ledgers(self) -> list[Ledger]: ...
    def divide(
        self, *, seed: int, shares: Sequence[tuple[int, float]], held_out: float | None, repeat: bool
    ) -> tuple[int, int]: ...
    def write(
        self,
        path: str,
        *,
        held_out: bool,
        capacity: int | None,
        share: bool,
        threads: int,
        progress: Progress,
    ) -> Totals: ...
    def length_histogram(self, held_out: bool) -> list[tuple[int, int]]: ...
    def length_quantiles(self, held_out: bool, shares: Sequence[float]) -> list[int]: ...

# A source's name and a line of it, from 1.
Place = tuple[str, int]
# A source's place among those of all parts, from 0, and a line of it, from 1.
Row = tuple[int, int]

@final
class Duplicates:
    def rows(self) -> list[int]: ...
    # Of the part with this place, as `Build.problems` has them.
    def problems(self, part: int) -> tuple[list[Problem], int]: ...
    # Part, part that it copies, exact and near copies, and pairs of a copy and its original.
    def copies(self) -> list[tuple[int, int, int, int, list[tuple[Place, Place]]]]: ...
    # Rows of the first part that copy an earlier one of it, with that one.
    def repeats(self) -> list[tuple[Row, Row]]: ...
    # Rows that copy one of an earlier part, with that one.
    def across(self) -> list[tuple[Row, Row]]: ...

@final
class MappedRows:
    def __new__(cls, path: str) -> MappedRows: ...
    def __len__(self) -> int: ...
    def place(self, row: int) -> list[tuple[int, int]]: ...
    def measure(self, rows: Sequence[int]) -> tuple[int, int]: ...
    def lengths(self) -> list[int]: ...
    def fill(self, rows: Sequence[int], ids: Any, labels: Any, positions: Any, boundaries: Any) -> None: ...

def ingest(
    recipe: Recipe,
    coder: Tokenizer | Oracle,
    sources: Sequence[tuple[str, str | ArrowStream]],
    without: Duplicates | None,
    spill: str,
    threads: int,
    progress: Progress,
) -> Build: ...
def compare(
    recipe: Recipe,
    parts: Sequence[Sequence[tuple[str, str | ArrowStream]]],
    threads: int,
    progress: Progress,
) -> Duplicates: ...
def layout(path: str) -> str: ...

# Each row in JSON, or the code and the words of what is wrong with it.
def first_rows(path: str, most: int) -> list[tuple[str | None, tuple[str, str] | None]]: ...
def template_reads(template: str, name: str) -> bool: ...
def template_decides(template: str, name: str) -> bool: ...

# Each row in JSON, or why it cannot be read.
def rows_of_columns(stream: ArrowStream) -> list[tuple[str | None, str | None]]: ...
def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]: ...
def time_best_fit(lengths: Sequence[int], capacity: int) -> tuple[float, int]: ...

# NumPy arrays that share the memory of tensors: those of bf16 are whole numbers of 16 bits. The last argument
# is the number of threads.
def swiglu(gate: Any, up: Any, out: Any, threads: int) -> None: ...
def swiglu_backward(grad: Any, gate: Any, up: Any, to_gate: Any, to_up: Any, threads: int) -> None: ...
def rms_norm(x: Any, weight: Any, epsilon: float, out: Any, scales: Any, threads: int) -> None: ...
def rms_norm_backward(grad: Any, x: Any, weight: Any, scales: Any, to_x: Any, threads: int) -> None: ...
def rotate(x: Any, cos: Any, sin: Any, direction: float, out: Any, threads: int) -> None: ...
def row_losses(
    logits: Any, labels: Any, ignored: int, want_grad: bool, losses: Any, threads: int
) -> None: ...
def attend(
    q: Any, k: Any, v: Any, lengths: Sequence[int], scale: float, out: Any, log_sums: Any, threads: int
) -> None: ...
def attend_backward(
    grad: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    log_sums: Any,
    lengths: Sequence[int],
    scale: float,
    to_q: Any,
    to_k: Any,
    to_v: Any,
    threads: int,
) -> None: ...

# Whether the elementwise kernels and `row_losses` are fast in bf16 on this processor.
BF16_RUNS_HERE: bool
# Whether the processor has the instructions that `attend` needs to be fast, in fp32 and in bf16.
ATTENTION_RUNS_HERE: bool
BF16_ATTENTION_RUNS_HERE: bool
