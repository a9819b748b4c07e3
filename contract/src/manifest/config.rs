//! `training.config`, and `base_models[].overrides`, which has the same keys.

use std::collections::BTreeMap;

use super::section::section;
use super::vocabulary::{
    Accumulation, ActivationCheckpointing, CompileMode, GradientCheckpointing, Limit, Modules, Together,
    Trackers,
};
use crate::ledger::{
    COUNT, Class, FRACTION, Kind, LARGEST, NOT_NEGATIVE, POSITIVE, Range, SHARE, TEXTS, WHOLE,
};
use crate::plan::{AdapterKind, Objective, OptimizerName, PrecisionRequest, ScheduleKind, Strategy, Tracker};

const BATCH: Kind = Kind::Integer { min: 1, max: 65_536 };
const RANK: Kind = Kind::Integer { min: 1, max: 4_096 };
const WORKERS: Kind = Kind::Integer { min: 0, max: 256 };
const BETA: Kind = FRACTION;
const RATE: Kind = Kind::Number(Range { min: 0.0, max: 10.0, min_included: false, max_included: true });
/// Beyond any training, and so few that the number of steps is exact.
const EPOCHS: Kind =
    Kind::Number(Range { min: 0.0, max: 1_000_000.0, min_included: false, max_included: true });

section! {
    /// How the adapter is trained.
    Config = CONFIG at "training.config" {}
    honoured {
        method ["method"]: Objective = Objective::Sft, Kind::Word(Objective::WORDS),
            "Supervised fine-tuning, the only method; any other is an error.";
        adapter_type ["adapter_type"]: AdapterKind = AdapterKind::Lora, Kind::Word(AdapterKind::WORDS),
            "The adapter's kind. `rslora` is LoRA scaled by the square root of the rank; `prompt` learns `soft_prompts` instead of weights.";
        rank ["rank", "lora_rank"]: Option<u32> = None, Kind::OneOf(&[RANK, Kind::Null]),
            "Rank of the adapter's matrices; the LoRA family needs one, ia3 and prompt have none.";
        alpha ["alpha", "lora_alpha"]: Option<f64> = None, Kind::OneOf(&[POSITIVE, Kind::Null]),
            "The adapter's scale is alpha / rank (for rslora alpha / sqrt(rank), for adalora alpha / (1.5 x rank), the rank that it starts with); the LoRA family needs one.";
        dropout ["dropout", "lora_dropout"]: f64 = 0.0, FRACTION, "Dropout on the adapter's inputs during training; lokr drops rows of its update instead.";
        target_modules ["target_modules"]: Modules = Modules::default(),
            Kind::OneOf(&[TEXTS, Kind::Word(&[Modules::ALL_LINEAR])]),
            "Names of the linear layers that get an adapter; `all-linear` means all of them in the base's blocks.";
        feedforward_modules ["feedforward_modules"]: Vec<String> = Vec::new(), TEXTS,
            "For ia3: the `target_modules` whose input is scaled instead of their output. Without `target_modules` the base's family decides both.";
        initial_adapter ["initial_adapter"]: Option<String> = None, Kind::OneOf(&[Kind::Text, Kind::Null]),
            "Folder of a trained adapter of the same base, kind, rank, alpha and layers, whose weights training starts from: `final/` of an earlier run, or one that peft saved. Null starts with a new adapter.";

        learning_rate ["learning_rate"]: f64 = 2e-4, RATE, "Peak learning rate.";
        lr_scheduler ["lr_scheduler", "lr_scheduler_type"]: ScheduleKind = ScheduleKind::Cosine, Kind::Word(ScheduleKind::WORDS),
            "The learning rate's schedule after the warm-up.";
        lr_scheduler_kwargs ["lr_scheduler_kwargs"]: BTreeMap<String, f64> = BTreeMap::new(), Kind::Map(&NOT_NEGATIVE),
            "Numbers that the schedule takes: `num_cycles` (cosine, cosine_with_restarts), `power` and `lr_end` (polynomial), `min_lr_ratio` (linear, cosine, cosine_with_restarts, one_cycle): the share of `learning_rate` that the schedule ends at.";
        warmup_steps ["warmup_steps"]: u64 = 0, WHOLE, "Warm-up steps; 0 uses `warmup_ratio`.";
        warmup_ratio ["warmup_ratio"]: f64 = 0.0, FRACTION, "Share of all steps that is warm-up. `one_cycle` takes 30% where no warm-up is named.";
        epochs ["epochs", "num_epochs", "num_train_epochs"]: f64 = 3.0, EPOCHS, "Number of epochs; may be a fraction.";
        max_steps ["max_steps"]: Limit = Limit(None), Kind::OneOf(&[Kind::Integer { min: -1, max: LARGEST }, Kind::Null]),
            "Optimizer steps, in place of `epochs`; null, 0 or -1 leaves it to `epochs`.";

        batch_size ["batch_size", "per_device_train_batch_size"]: u64 = 8, BATCH,
            "Rows per micro-batch. With `gradient_accumulation_steps` it gives the rows per step; if memory is short, micro-batches are split further, with the same result (except for a base that has dropout: see docs/families.md).";
        gradient_accumulation_steps ["gradient_accumulation_steps"]: Accumulation = Accumulation::Steps(1),
            Kind::OneOf(&[BATCH, Kind::Word(&[Accumulation::AUTO])]),
            "Micro-batches per optimizer step. `auto` chooses the rows per step from the size of the data: a power of two up to 32 that makes at least 32 steps per epoch, and not below 2 unless rows are packed; 16 where the size is not known.";
        max_seq_length ["max_seq_length", "max_length"]: u32 = 2048, Kind::Integer { min: 8, max: 1_048_576 },
            "Maximum tokens per row; `training.dataset.overlong` decides about longer rows.";
        packing ["packing"]: bool = false, Kind::Bool,
            "Whether several documents share a row. Attention never crosses from one to another, so the result is that of separate rows.";
        share_prefixes ["share_prefixes"]: bool = false, Kind::Bool,
            "Whether packed documents that follow one another and begin alike, such as questions about the same tables, share their beginning: it is computed once, each still attends only to itself. A row then holds several times as many of them.";
        group_by_length ["group_by_length"]: bool = false, Kind::Bool, "Whether rows of similar length share a batch; only without packing.";

        optim ["optim"]: OptimizerName = OptimizerName::AdamwTorchFused, Kind::Word(OptimizerName::WORDS), "The optimizer.";
        weight_decay ["weight_decay"]: f64 = 0.0, SHARE, "Decoupled weight decay.";
        adam_beta1 ["adam_beta1"]: f64 = 0.9, BETA, "Decay of Adam's first moment; without effect on adafactor, muon and sgd.";
        adam_beta2 ["adam_beta2"]: f64 = 0.999, BETA, "Decay of Adam's second moment; without effect on adafactor, muon and sgd.";
        adam_epsilon ["adam_epsilon"]: f64 = 1e-8, POSITIVE, "Added to Adam's denominator; without effect on adafactor, muon and sgd.";
        max_grad_norm ["max_grad_norm"]: Option<f64> = Some(1.0), Kind::OneOf(&[NOT_NEGATIVE, Kind::Null]),
            "Global norm that gradients are clipped to; 0 or null leaves them alone.";
        neftune_noise_alpha ["neftune_noise_alpha"]: Option<f64> = None, Kind::OneOf(&[NOT_NEGATIVE, Kind::Null]),
            "NEFTune: scale of the noise added to embeddings during training; 0 or null adds none.";
        seed ["seed"]: u64 = 42, Kind::Integer { min: 0, max: LARGEST }, "Seed of every random draw.";

        fp16 ["fp16"]: bool = false, Kind::Bool,
            "Compute in float16; false leaves the number format to `bf16`.";
        bf16 ["bf16"]: Option<bool> = None, Kind::OneOf(&[Kind::Bool, Kind::Null]),
            "Compute in bfloat16. Without `fp16`, null means bf16 on GPUs, or fp16 where they have no units for it, and fp32 elsewhere; false means fp32 everywhere, as `--mixed-precision no` does.";
        use_tf32 ["use_tf32", "tf32"]: bool = true, Kind::Bool, "Allow TensorFloat-32 in float32 products, on devices that have it.";
        use_sdpa ["use_sdpa"]: bool = true, Kind::Bool, "Use torch's scaled_dot_product_attention; false uses eager attention, which takes the slower plain path.";
        flash_attention_2 ["flash_attention_2"]: bool = false, Kind::Bool,
            "Use FlashAttention if it is installed and supports the device; else `use_sdpa` decides.";
        gradient_checkpointing ["gradient_checkpointing"]: GradientCheckpointing = GradientCheckpointing::Off,
            Kind::OneOf(&[Kind::Bool, Kind::Word(GradientCheckpointing::WORDS)]),
            "Recompute activations in the backward pass: `selective` attention only, `full` (and true) each layer. Saves memory, costs about a third of the speed.";
        gradient_checkpointing_kwargs ["gradient_checkpointing_kwargs"]: CheckpointingOptions = CheckpointingOptions::default(),
            Kind::Object(&CHECKPOINTING_OPTIONS), "Details of `gradient_checkpointing`.";
        activation_checkpointing ["activation_checkpointing"]: Option<ActivationCheckpointing> = None,
            Kind::OneOf(&[Kind::Word(ActivationCheckpointing::WORDS), Kind::Null]),
            "What `gradient_checkpointing: true` recomputes; where that key is absent, this one switches it on.";
        torch_compile ["torch_compile"]: Option<bool> = None, Kind::OneOf(&[Kind::Bool, Kind::Null]),
            "Compile norms, rotary positions and SwiGLU with torch.compile; products and attention are library kernels. Null compiles on an NVIDIA GPU in 16 bits, where `doctor --prove` found it right.";
        torch_compile_backend ["torch_compile_backend"]: String = "inductor".to_owned(), Kind::Text, "Backend of torch.compile.";
        torch_compile_mode ["torch_compile_mode"]: CompileMode = CompileMode::Default, Kind::Word(CompileMode::WORDS),
            "Mode of torch.compile; `reduce-overhead` is `default` with `use_cuda_graphs`.";
        use_cuda_graphs ["use_cuda_graphs"]: Option<bool> = None, Kind::OneOf(&[Kind::Bool, Kind::Null]),
            "Capture a micro-batch's forward and backward pass as a CUDA graph, which is one launch. Null captures on an NVIDIA GPU that would wait for the host, where `doctor --prove` found it right.";

        dataloader_num_workers ["dataloader_num_workers"]: u32 = 0, WORKERS,
            "Loader processes; not used with the token cache.";
        dataloader_pin_memory ["dataloader_pin_memory"]: bool = true, Kind::Bool, "Copy to a GPU from pinned memory.";
        dataloader_prefetch_factor ["dataloader_prefetch_factor"]: Option<u32> = None,
            Kind::OneOf(&[Kind::Integer { min: 1, max: 1_024 }, Kind::Null]), "Rows that each worker reads ahead; 2 where it is null.";
        dataloader_drop_last ["dataloader_drop_last"]: bool = false, Kind::Bool, "Drop the last, smaller step of an epoch.";

        logging_steps ["logging_steps"]: u64 = 10, COUNT, "Steps between two points of the trackers in `report`; the run's own events have every step.";
        report ["report", "report_to"]: Trackers = Trackers(vec![Tracker::Tensorboard]),
            Kind::OneOf(&[Kind::Word(&["none", "tensorboard", "wandb"]), Kind::List(&Kind::Word(Tracker::WORDS))]),
            "Trackers that get the run's numbers, beside the run's own events and report.";
        save_strategy ["save_strategy"]: Strategy = Strategy::Steps, Kind::Word(Strategy::WORDS),
            "When checkpoints are written, beside each best one of `load_best_model_at_end`; `no` writes one only when the run ends or is stopped.";
        save_steps ["save_steps"]: u64 = 500, COUNT, "Steps between two checkpoints.";
        save_total_limit ["save_total_limit"]: Option<u32> = Some(3), Kind::OneOf(&[Kind::Integer { min: 1, max: 100_000 }, Kind::Null]),
            "Checkpoints to keep, including the best; the newest is never deleted, null keeps all.";
        evaluation_strategy ["evaluation_strategy", "eval_strategy"]: Strategy = Strategy::No, Kind::Word(Strategy::WORDS),
            "When the validation loss is measured, and the accuracy if the best checkpoint is chosen by it.";
        eval_steps ["eval_steps"]: Option<u64> = None, Kind::OneOf(&[COUNT, Kind::Null]),
            "Steps between two evaluations; `save_steps` by default.";
        load_best_model_at_end ["load_best_model_at_end"]: bool = false, Kind::Bool, "Use the best checkpoint as the final adapter, not the last one; of equally good ones the latest.";
        eval_rows ["eval_rows"]: Option<u64> = None, Kind::OneOf(&[COUNT, Kind::Null]),
            "Validation rows per evaluation during training: one drawn from each of as many equal parts of the data, always the same ones; all by default.";
        metric_for_best_model ["metric_for_best_model"]: String = "eval_loss".to_owned(), Kind::Text,
            "The metric that chooses the best checkpoint: `eval_loss` (or `loss`), or `accuracy`, for which answers to validation rows are generated and scored as `evaluate` scores them.";
        greater_is_better ["greater_is_better"]: Option<bool> = None, Kind::OneOf(&[Kind::Bool, Kind::Null]),
            "Whether a greater metric is better; by default false for a loss and true for accuracy.";
        early_stopping_patience ["early_stopping_patience"]: Option<u32> = None,
            Kind::OneOf(&[Kind::Integer { min: 1, max: 1_000_000 }, Kind::Null]),
            "Evaluations without a better value after which training stops; needs `load_best_model_at_end`.";
        memory_clear_every ["memory_clear_every"]: Option<u64> = None, Kind::OneOf(&[WHOLE, Kind::Null]),
            "Steps between two releases of the allocator's cached memory; 0 or null for never.";
        pretokenized_cache ["pretokenized_cache"]: Option<String> = None, Kind::OneOf(&[Kind::Text, Kind::Null]),
            "Folder of this expert's token caches, in the expert's folder or one that `--allow-path` names; `{expert-name}` and `{model-slug}` are filled in. `datasets_optimized/{expert-name}/tokenized` in the expert's folder where it is absent.";
        checkpoint_mirror ["checkpoint_mirror"]: Option<CheckpointMirror> = None,
            Kind::OneOf(&[Kind::Object(&CHECKPOINT_MIRROR), Kind::Null]),
            "Where checkpoints are copied to; a plain string is the target.";
        distributed ["distributed"]: Option<Distributed> = None, Kind::OneOf(&[Kind::Object(&DISTRIBUTED), Kind::Null]),
            "Several processes on this machine that train the expert together, each on its own device; a plain string is the strategy. A step has the same rows for any number of processes, and a checkpoint can be resumed with any number.";
    }
    kept {
        ["use_unsloth"]: Kind::Bool, Class::Advice {
            reason: "training uses a built-in fast path and does not load Unsloth",
            instead: "remove the key; nothing else is needed",
        }, "Asks the predecessor for Unsloth.";
        ["cuda_graph_warmup_steps"]: WHOLE, Class::Advice {
            reason: "with `use_cuda_graphs` the first batch of a shape warms up and the second is captured",
            instead: "remove the key",
        }, "Steps before CUDA graphs are captured.";
        ["dataloader_persistent_workers"]: Kind::Bool, Class::Advice {
            reason: "loader workers are started once, and read the rows of all epochs",
            instead: "remove the key",
        }, "Asks that loader workers outlive an epoch.";
        ["memory_efficient_attention"]: Kind::Bool, Class::Advice {
            reason: "attention is always computed without the full score matrix while `use_sdpa` is true",
            instead: "remove the key, or choose with `use_sdpa` and `flash_attention_2`",
        }, "Asks for attention that does not hold the full score matrix.";
    }
}

section! {
    /// Details of gradient checkpointing.
    CheckpointingOptions = CHECKPOINTING_OPTIONS at "training.config.gradient_checkpointing_kwargs" {}
    honoured {}
    kept {
        ["use_reentrant"]: Kind::Bool, Class::Advice {
            reason: "recomputation here is always the non-reentrant kind, as torch recommends",
            instead: "remove the key",
        }, "Which of torch's two implementations recomputes.";
    }
}

section! {
    /// Where checkpoints are copied to.
    CheckpointMirror = CHECKPOINT_MIRROR at "training.config.checkpoint_mirror" {
        required: &["target"],
        text_key: Some("target"),
    }
    honoured {
        target ["target"]: String = String::new(), Kind::Text, "A folder in the expert's (or one that `--allow-path` names), or any URL that fsspec opens; `{expert-name}` and `{model-slug}` are filled in. Each run needs its own: where another run's checkpoints are, nothing is copied. Credentials come from the environment.";
        compress ["compress"]: bool = false, Kind::Bool, "Whether copies are compressed.";
        background ["background"]: bool = true, Kind::Bool, "Whether training continues while a checkpoint is copied.";
    }
    kept {}
}

section! {
    /// Several processes that train one expert together.
    Distributed = DISTRIBUTED at "training.config.distributed" {
        text_key: Some("strategy"),
    }
    honoured {
        strategy ["strategy"]: Together = Together::Ddp, Kind::Word(Together::WORDS),
            "`ddp`: each process holds the whole base. `fsdp2`: the base's weights are sharded over the processes, for bases that do not fit one device. `deepspeed` is refused.";
        processes ["processes", "num_processes"]: Option<u32> = None, Kind::OneOf(&[Kind::Integer { min: 1, max: 64 }, Kind::Null]),
            "Number of processes; null means one per GPU, and one on a CPU.";
    }
    kept {}
}

impl Config {
    /// The precision that `fp16` and `bf16` select together.
    pub fn precision(&self) -> PrecisionRequest {
        match (*self.fp16, *self.bf16) {
            (_, Some(true)) => PrecisionRequest::Bf16,
            (true, _) => PrecisionRequest::Fp16,
            (false, Some(false)) => PrecisionRequest::Fp32,
            (false, None) => PrecisionRequest::Auto,
        }
    }
}
