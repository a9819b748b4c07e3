"""How the recipe is computed here. All of it may differ between two attempts at one run."""

from typing import Literal

from expert_worker.document import U32, U64, Document

DeviceKind = Literal["cuda", "mps", "cpu"]
Dtype = Literal["bf16", "fp16", "fp32"]
DistributedStrategy = Literal["ddp", "fsdp2"]
CheckpointingMode = Literal["none", "selective", "full"]
Tracker = Literal["tensorboard", "wandb"]


class Device(Document):
    kind: DeviceKind
    index: U32
    name: str
    memory_bytes: U64 | None = None


class Distributed(Document):
    strategy: DistributedStrategy
    processes: U32


class Compile(Document):
    backend: str
    mode: str


class FastParts(Document):
    """What the fast path is made of; benchmarks switch one off to see what it is worth."""

    document_attention: bool
    chunked_loss: bool
    fused_adapters: bool


class Threads(Document):
    compute: U32 | None = None
    pretokenize: U32 | None = None


class Loader(Document):
    use_cache: bool
    workers: U32
    pin_memory: bool
    prefetch_factor: U32 | None = None
    persistent_workers: bool


class Logging(Document):
    steps: U64
    trackers: tuple[Tracker, ...]


class Mirror(Document):
    target: str
    compress: bool
    background: bool


class Paths(Document):
    manifest: str
    expert_dir: str
    output: str
    cache: str
    home: str
    base: str | None = None
    data: dict[str, str]


class MemoryEstimate(Document):
    weights: U64
    adapter: U64
    gradients: U64
    optimizer: U64
    activations: U64
    logits: U64
    context: U64
    total: U64


class Machine(Document):
    device: Device
    dtype: Dtype
    fp32_products: bool
    micro_batch: U64
    accumulation: U64
    distributed: Distributed | None = None
    piece_tokens: U64 | None = None
    fast_path: bool
    fast_parts: FastParts
    flash_attention: bool
    sdpa: bool
    checkpointing: CheckpointingMode
    compile: Compile | None = None
    memory_clear_every: U64 | None = None
    threads: Threads
    loader: Loader
    logging: Logging
    save_total_limit: U32 | None = None
    mirror: Mirror | None = None
    paths: Paths
    estimate: MemoryEstimate
