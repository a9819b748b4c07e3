//! What other trainers call a setting, and its name here: Axolotl, LLaMA-Factory, Unsloth, PEFT, TRL, torchtune.
//! `import` and the hints of diagnostics read this one table.

/// What a key of another trainer is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The same value, at this path.
    Same(&'static str),
    /// Where it is on, this value at this path; where it is off, nothing.
    Switch(&'static str, &'static str),
    /// It belongs at this path; its value is another one here, or depends on other keys.
    Composed(&'static str),
    /// Said on the command line, not in a manifest.
    Flag(&'static str),
    /// Nothing here does the same: why, and what to do instead.
    Absent(&'static str, &'static str),
    /// Not needed here: why.
    Unneeded(&'static str),
}

use Meaning::{Absent, Composed, Flag, Same, Switch, Unneeded};

struct Row {
    names: &'static [&'static str],
    meaning: Meaning,
}

const fn row(names: &'static [&'static str], meaning: Meaning) -> Row {
    Row { names, meaning }
}

const RANK: &str = "training.config.rank";
const ALPHA: &str = "training.config.alpha";
const DROPOUT: &str = "training.config.dropout";
const MODULES: &str = "training.config.target_modules";
const KIND: &str = "training.config.adapter_type";
const INITIAL: &str = "training.config.initial_adapter";
const BATCH: &str = "training.config.batch_size";
const ACCUMULATION: &str = "training.config.gradient_accumulation_steps";
const LENGTH: &str = "training.config.max_seq_length";
const PACKING: &str = "training.config.packing";
const BF16: &str = "training.config.bf16";
const FP16: &str = "training.config.fp16";
const FLASH: &str = "training.config.flash_attention_2";
const SDPA: &str = "training.config.use_sdpa";
const CHECKPOINTING: &str = "training.config.gradient_checkpointing";
const QUANTIZATION: &str = "base_models[].quantization";
const BASE: &str = "base_models[].name";
const TEMPLATE: &str = "base_models[].prompt_template";
const REPORT: &str = "training.config.report";
const DATA: &str = "training.dataset.path";
const VALIDATION: &str = "training.dataset.validation_path";
const TRAIN_ON: &str = "training.dataset.train_on";
const OPTIM: &str = "training.config.optim";
const SCHEDULER: &str = "training.config.lr_scheduler";
const SCHEDULER_OPTIONS: &str = "training.config.lr_scheduler_kwargs";

const BUILT_IN: &str = "the fast path has its own fused kernels, for every base that it knows";
const TRACKING: &str =
    "only TensorBoard and Weights & Biases are reported to, beside report.html and events.jsonl";
const TRACKER: &str = "read the numbers in the run's report.html or events.jsonl";
const ENVIRONMENT: &str = "a manifest is shared, so it holds no tokens";
const MULTIMODAL: &str = "only text is trained on";
const TEXT_ONLY: &str = "use a text base and text rows";
const OTHER_METHOD: &str = "it belongs to another method than supervised fine-tuning, the only one here";
const REMOVE: &str = "nothing; training goes without it";
const FROZEN: &str = "the base stays frozen, embeddings and head included";
const PARALLEL: &str = "a base is sharded by FSDP2 or held by each process, and not split in other ways";
const PARALLEL_HINT: &str =
    "set training.config.distributed to \"fsdp2\" where the base does not fit one device";
const VOCABULARY: &str = "the base's tokenizer is used as it is";
const TOKENIZER_HINT: &str =
    "use a base whose tokenizer has these tokens; padding is never learned and needs no token";
const NO_CACHE: &str =
    "the token cache has its own place and is renewed when anything that it is made from changes";
const OTHER_OPTIMIZER: &str = "this optimizer is not here";
const OPTIMIZER_HINT: &str = "choose training.config.optim from the list in docs/manifest.md";
const LISTING: &str = "the number of rows is that of the file";
const FEWER_ROWS: &str = "write a file with fewer rows, or set training.config.max_steps";
const SHUFFLED: &str = "rows are shuffled in each epoch, as the seed decides";
const IN_ORDER: &str = "no setting keeps the order of the file";
const NO_DEFAULT_SYSTEM: &str = "the system message is in the rows or in the base's template";
const SYSTEM_HINT: &str =
    "write it into each row as `system`; the base's template may add its own to a row that has none";
const HUB_PUSH: &str = "training uploads nothing";
const HUB_PUSH_HINT: &str = "`expert-cli export --push OWNER/NAME` uploads the finished adapter; training.config.checkpoint_mirror copies checkpoints";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The base.
    row(&["base_model", "model_name_or_path", "model_name", "base_model_name_or_path",
        "pretrained_model_name_or_path", "model_id"],
        Composed(BASE)),
    row(&["load_in_4bit"], Switch(QUANTIZATION, "int4")),
    row(&["load_in_8bit"], Switch(QUANTIZATION, "int8")),
    row(&["quantization_bit"], Composed(QUANTIZATION)),
    row(&["bnb_4bit_quant_type", "quantization_type"], Composed(QUANTIZATION)),
    row(&["bnb_4bit_use_double_quant", "use_bnb_nested_quant", "double_quantization"],
        Unneeded("int4 always quantizes its scales once more")),
    row(&["bnb_config_kwargs", "quantization_method", "quantization_device_map", "bnb_4bit_quant_storage",
        "model_quantization_config", "model_quantization_config_kwargs", "quantization"],
        Absent("a base is held as bf16, fp16, int8 or int4 (NF4), and by no other method",
            "set base_models[].quantization")),
    row(&["gptq", "gptq_groupsize", "gptq_model_v1", "gptq_disable_exllama", "loftq_config", "loftq_bits",
        "qat", "fp8", "fp8_backend", "fp8_enable_fsdp_float8_all_gather", "llmcompressor", "use_onebitllms"],
        Absent("a base is held as bf16, fp16, int8 or int4 (NF4), and by no other method",
            "set base_models[].quantization and start from the unquantized base")),
    row(&["chat_template", "template"], Composed(TEMPLATE)),
    row(&["chat_template_jinja", "chat_template_path"], Composed("base_models[].template_source")),
    row(&["trust_remote_code"],
        Unneeded("no code of a downloaded base is run; bases of the families in docs/families.md need none")),
    row(&["model_revision", "revision_of_model", "revision", "branch"],
        Absent("a base is named without a revision",
            "pin the weights with base_models[].sha256, or download that revision and name its folder")),
    row(&["model_type", "type_of_model", "tokenizer_type", "tokenizer_config", "base_model_config",
        "cls_model_config", "tokenizer_use_fast", "use_fast_tokenizer", "tokenizer_legacy",
        "is_llama_derived_model", "is_mistral_derived_model", "is_falcon_derived_model",
        "is_qwen_derived_model", "model_class", "init_config", "low_cpu_mem_usage", "device_map", "max_memory",
        "gpu_memory_limit", "experimental_skip_move_to_device", "tokenizer_name", "tokenizer_name_or_path",
        "cache_dir"],
        Unneeded("the base's own files say which model and tokenizer it has, and the device is found")),
    row(&["rope_scaling"], Same("base_models[].rope_scaling")),
    row(&["overrides_of_model_config", "overrides_of_model_kwargs", "model_kwargs", "model_init_kwargs",
        "model_config"],
        Absent("the base's config.json is used as it is",
            "change config.json in a copy of the base's folder; rope_scaling is a key of base_models[]")),
    row(&["special_tokens", "tokens", "added_tokens_overrides", "add_tokens", "add_special_tokens",
        "new_special_tokens", "new_special_tokens_config", "init_special_tokens", "split_special_tokens", "resize_vocab",
        "resize_token_embeddings_to_32x", "mean_resizing_embeddings", "shrink_embeddings", "bos_token",
        "eos_token", "pad_token", "unk_token", "additional_special_tokens", "fix_untrained_tokens",
        "eot_tokens", "tokenizer_use_mistral_common"],
        Absent(VOCABULARY, TOKENIZER_HINT)),
    row(&["lora_modules_to_save", "modules_to_save", "additional_target", "unfrozen_parameters",
        "freeze_trainable_layers", "freeze_trainable_modules", "freeze_extra_modules",
        "peft_trainable_token_indices", "trainable_token_indices", "peft_ensure_weight_tying",
        "ensure_weight_tying"],
        Absent(FROZEN, "raise the rank or adapt more layers with target_modules: \"all-linear\"")),
    row(&["processor_type", "processor_kwargs", "image_max_pixels", "image_min_pixels", "image_do_pan_and_scan",
        "crop_to_patches", "video_max_pixels", "video_min_pixels", "video_fps", "video_maxlen",
        "use_audio_in_video", "audio_sampling_rate", "freeze_vision_tower", "freeze_multi_modal_projector",
        "freeze_language_model", "freeze_mm_modules", "media_dir", "image_size", "image_resize_algorithm"],
        Absent(MULTIMODAL, TEXT_ONLY)),
    // The adapter.
    row(&["adapter", "finetuning_type", "peft_type", "lora"], Composed(KIND)),
    row(&["lora_r", "r", "lora_rank"], Same(RANK)),
    row(&["lora_alpha"], Same(ALPHA)),
    row(&["lora_dropout"], Same(DROPOUT)),
    row(&["lora_target_modules", "lora_target", "lora_modules", "lora_attn_modules"], Composed(MODULES)),
    row(&["lora_target_linear", "apply_lora_to_mlp"], Switch(MODULES, "all-linear")),
    row(&["use_dora", "peft_use_dora", "lora_use_dora"], Switch(KIND, "dora")),
    row(&["use_rslora", "peft_use_rslora"], Switch(KIND, "rslora")),
    row(&["apply_lora_to_output"],
        Absent("the head gets no adapter",
            "name it in target_modules if the base has it as a separate linear layer")),
    row(&["lora_fan_in_fan_out", "fan_in_fan_out"],
        Unneeded("how a layer stores its weights is known from the base")),
    row(&["task_type", "lora_task_type", "inference_mode", "auto_mapping", "use_peft", "peft_version",
        "megatron_core", "megatron_config", "runtime_config", "qalora_group_size"],
        Unneeded("an adapter of a causal language model is what is trained")),
    row(&["bias", "lora_bias"],
        Absent("an adapter has no biases, and those of the base stay frozen", REMOVE)),
    // What Axolotl has in `peft` are settings of LoftQ, which prepares the first weights.
    row(&["peft", "init_lora_weights", "peft_init_lora_weights", "pissa_init", "pissa_iter", "pissa_convert",
        "eva_config", "corda_config", "lora_ga_config", "use_llama_pro", "mixture_of_depths"],
        Absent("adapters start as PEFT's do: A random, B zero", REMOVE)),
    row(&["loraplus_lr_ratio", "loraplus_lr_embedding", "embedding_lr", "embedding_lr_scale", "lr_groups"],
        Absent("every parameter has the same learning rate", "raise training.config.learning_rate")),
    row(&["layers_to_transform", "layers_pattern", "peft_layers_to_transform", "peft_layers_pattern",
        "lora_num_layers", "num_layers", "lora_layers"],
        Absent("the layers of an adapter are chosen by their names",
            "name them in target_modules, one by one: \"layers.28.self_attn.q_proj\", \"layers.29.self_attn.q_proj\"")),
    row(&["rank_pattern", "alpha_pattern", "lora_rank_pattern", "lora_alpha_pattern", ],
        Absent("every adapted layer has the same rank and alpha",
            "choose layers by name in target_modules")),
    row(&["exclude_modules"],
        Absent("the adapted layers are listed, and none is excluded by its name",
            "list the layers to adapt in target_modules")),
    row(&["target_parameters", "lora_target_parameters"],
        Absent("adapters are on layers, and not on single parameters",
            "choose layers by name in target_modules")),
    row(&["layer_replication", "peft_layer_replication"],
        Absent("the base's layers are used as they are",
            "make the larger base with another tool, and name its folder in base_models[]")),
    row(&["lora_on_cpu"], Unneeded("an adapter is on the device of its base")),
    row(&["peft_autocast_adapter_dtype"], Unneeded("the adapter's weights are in fp32 while it is trained")),
    row(&["relora", "relora_steps", "relora_warmup_steps", "relora_prune_ratio", "relora_prune_method",
        "relora_cpu_offload", "lisa_n_layers", "lisa_step_interval", "lisa_layers_attribute", "use_badam",
        "badam_mode", "badam_start_block", "badam_switch_mode", "badam_switch_interval", "badam_update_ratio",
        "badam_mask_mode", "badam_verbose", "oft_rank", "oft_block_size", "oft_target", "module_dropout",
        "velora_config", "alora_invocation_tokens", "use_qalora", "monteclora_config", "use_bdlora", "arrow_config",
        "kasa_config"],
        Absent("adapters are LoRA, rsLoRA, DoRA, IA3, LoKr, AdaLoRA and soft prompts",
            "set training.config.adapter_type")),
    row(&["lora_model_dir", "adapter_name_or_path"], Composed(INITIAL)),
    row(&["adapter_folder", "create_new_adapter", "merge_lora", "merge_method"],
        Absent("one adapter is trained, and none is merged on the way",
            "merge an earlier adapter with `export --merge --from FOLDER` and name the merged folder as the base")),
    row(&["lora_qkv_kernel", "lora_mlp_kernel", "lora_o_kernel", "lora_embedding_kernel", "use_kernels",
        "fused_attn_kernel", "flash_attn_cross_entropy", "flash_attn_rms_norm", "flash_attn_fuse_mlp",
        "flash_attn_fuse_qkv", "flash_optimum", "chunked_cross_entropy", "chunked_cross_entropy_num_chunks",
        "cut_cross_entropy", "enable_liger_kernel", "use_liger_kernel", "use_liger", "liger_kernel", "liger_rope",
        "liger_rms_norm", "liger_rms_norm_gated", "liger_glu_activation", "liger_layer_norm",
        "liger_cross_entropy", "liger_fused_linear_cross_entropy", "unsloth_lora_mlp", "unsloth_lora_qkv",
        "unsloth_lora_o", "unsloth_cross_entropy_loss", "unsloth_rms_norm", "unsloth_rope", "use_v1_kernels",
        "tiled_mlp", "tiled_mlp_num_shards", "kernel_config", "liger_kernel_config"],
        Unneeded(BUILT_IN)),
    // Batches and length.
    row(&["micro_batch_size", "train_batch_size", "per_device_batch_size"], Same(BATCH)),
    row(&["grad_accumulation", "gradient_accumulation", "grad_accum_steps"], Same(ACCUMULATION)),
    row(&["sequence_len", "cutoff_len", "max_seq_len", "model_max_length", "block_size"], Same(LENGTH)),
    row(&["sample_packing", "neat_packing"], Same(PACKING)),
    row(&["pad_to_sequence_len", "pad_to_multiple_of", "padding_side", "padding_free", "batch_flattening",
        "multipack_real_batches", "sample_packing_eff_est", "sample_packing_group_size",
        "sample_packing_bin_size", "sample_packing_sequentially", "sample_packing_seq_len_multiplier",
        "sample_packing_mp_start_method", "eval_sample_packing", "eval_packing", "total_num_tokens",
        "total_supervised_tokens", "pretrain_multipack_buffer_size", "pretrain_multipack_attn",
        "streaming_multipack_buffer_size", "max_packed_sequence_len", "packing_strategy", "block_diag_attn",
        "ignore_pad_token_for_loss", "batching_strategy", "num_of_sequences", "chars_per_token"],
        Unneeded("packed rows are filled, and attention never crosses from one document to the next; padding is never computed")),
    row(&["auto_find_batch_size"], Unneeded("a micro-batch that does not fit is halved, with the same result")),
    row(&["eval_batch_size", "per_device_eval_batch_size", "eval_accumulation_steps", "eval_sequence_len",
        "prediction_loss_only"],
        Unneeded("evaluation sizes its batches by the memory that there is")),
    row(&["excess_length_strategy", "truncation_mode", "truncation_side"], Composed("training.dataset.overlong")),
    row(&["train_sampling_strategy"], Composed("training.config.group_by_length")),
    row(&["length_column_name"], Unneeded("a row's length is the number of its tokens")),
    row(&["min_sample_len"],
        Absent("rows have no lower bound in tokens", "set training.dataset.validation.min_length, in characters")),
    row(&["max_samples", "max_train_samples", "max_eval_samples"], Absent(LISTING, FEWER_ROWS)),
    row(&["use_pose", "pose_split_on_token_ids", "pose_max_context_len", "pose_num_chunks", "s2_attention",
        "shift_attn"],
        Absent("attention is the base's own",
            "set max_seq_length and base_models[].rope_scaling for longer texts")),
    row(&["curriculum_sampling", "disable_shuffling", "shuffle"], Absent(SHUFFLED, IN_ORDER)),
    // Those trainers shuffle in each epoch too, whatever these keys say.
    row(&["shuffle_dataset", "shuffle_merged_datasets", "shuffle_before_merging_datasets"],
        Unneeded(SHUFFLED)),
    // Duration, rate and optimizer.
    row(&["lr"], Same("training.config.learning_rate")),
    row(&["scheduler", "lr_scheduler", "lr_scheduler_type"], Composed(SCHEDULER)),
    row(&["lr_scheduler_kwargs"], Composed(SCHEDULER_OPTIONS)),
    row(&["cosine_min_lr_ratio", "min_lr_ratio"], Composed(SCHEDULER_OPTIONS)),
    row(&["cosine_constant_lr_ratio", "lr_quadratic_warmup", "lr_div_factor", "log_sweep_min_lr",
        "log_sweep_max_lr", "eta_min", "jagged_restart_steps", "jagged_restart_warmup_steps",
        "jagged_restart_anneal_steps"],
        Absent("schedules take num_cycles, power, lr_end and min_lr_ratio",
            "set training.config.lr_scheduler_kwargs")),
    row(&["warmup", "num_warmup_steps"], Same("training.config.warmup_steps")),
    row(&["max_steps_per_epoch"], Same("training.config.max_steps")),
    row(&["optimizer"], Same(OPTIM)),
    row(&["optim_args", "optim_target_modules", "torchdistx_path", "adam_epsilon2", "adam_beta3", "dion_lr",
        "dion_momentum", "dion_rank_fraction", "dion_rank_multiple_of", "use_galore", "galore_target",
        "galore_rank", "galore_update_interval", "galore_scale", "galore_proj_type", "galore_layerwise",
        "use_apollo", "apollo_target", "apollo_rank", "apollo_update_interval", "apollo_scale", "apollo_proj",
        "apollo_proj_type", "apollo_scale_type", "apollo_layerwise", "apollo_scale_front", "use_adam_mini",
        "qgalore_rank", "optim_config"],
        Absent(OTHER_OPTIMIZER, OPTIMIZER_HINT)),
    row(&["use_muon"], Switch(OPTIM, "muon")),
    row(&["adam_eps"], Same("training.config.adam_epsilon")),
    row(&["clip_grad_norm", "gradient_clipping"], Same("training.config.max_grad_norm")),
    row(&["neftune_alpha", "noisy_embedding_alpha"], Same("training.config.neftune_noise_alpha")),
    row(&["random_seed", "random_state", "data_seed"], Same("training.config.seed")),
    row(&["upcast_layernorm", "upcast_lmhead_output", "fp32_norms", "fp32_norm_classes", "float32",
        "embeddings_skip_upcast"],
        Unneeded("norms and the loss are computed in fp32")),
    row(&["label_smoothing_factor", "use_dft_loss", "use_asft_loss", "asft_alpha", "use_eaft", "use_eaft_loss",
        "eaft_alpha", "eaft_k", "moe_aux_loss_coef", "router_aux_loss_coef", "loss_type"],
        Absent("the loss is the mean cross-entropy of the supervised tokens", REMOVE)),
    row(&["average_tokens_across_devices"],
        Unneeded("the loss of a step is the mean over the supervised tokens of all processes")),
    row(&["loss_watchdog_threshold", "loss_watchdog_patience"],
        Absent("a run ends when its loss is no longer a number, and at no other value", REMOVE)),
    // Precision, memory and speed.
    row(&["bfloat16", "pure_bf16"], Composed(BF16)),
    row(&["float16"], Composed(FP16)),
    row(&["bnb_4bit_compute_dtype", "dtype", "torch_dtype", "mixed_precision", "compute_dtype", "infer_dtype"],
        Composed(BF16)),
    row(&["flash_attention", "flash_attn", "attn_implementation"], Composed(FLASH)),
    row(&["sdp_attention"], Same(SDPA)),
    row(&["eager_attention"], Composed(SDPA)),
    row(&["xformers_attention", "flex_attention", "flex_attn_compile_kwargs", "sage_attention", "sdpa_varlen",
        "scaling_softmax", "experts_implementation"],
        Absent("attention is FlashAttention 2, torch's own, or eager",
            "set use_sdpa or flash_attention_2; the default is right for most")),
    row(&["use_gradient_checkpointing", "enable_activation_checkpointing", "disable_gradient_checkpointing",
        "use_unsloth_gc"],
        Composed(CHECKPOINTING)),
    row(&["use_reentrant_gc"], Unneeded("recomputation is the non-reentrant kind")),
    row(&["activation_offloading", "enable_activation_offloading", "layer_offloading",
        "selective_checkpointing", "offload_folder"],
        Absent("activations stay on the device", "set gradient_checkpointing to \"selective\" or \"full\"")),
    row(&["torch_compile_options", "deepcompile", "compile"],
        Absent("torch.compile takes a backend and a mode here",
            "set torch_compile, torch_compile_backend and torch_compile_mode")),
    row(&["deepspeed"],
        Absent("DeepSpeed shards optimizer states, which are small for an adapter",
            "set training.config.distributed to \"ddp\", or to \"fsdp2\" where the base does not fit one device")),
    row(&["fsdp"], Switch("training.config.distributed", "fsdp2")),
    row(&["fsdp_config", "fsdp_version", "fsdp_final_state_dict_type", "fsdp_transformer_layer_cls_to_wrap"],
        Unneeded("each layer of the base is sharded separately under \"fsdp2\"")),
    row(&["tensor_parallel_size", "context_parallel_size", "expert_parallel_size", "sequence_parallel_degree",
        "sequence_parallel", "dp_shard_size", "dp_replicate_size", "heads_k_stride", "ring_attn_func",
        "pipeline_model_parallel_size", "tensor_model_parallel_size", "expert_model_parallel_size", "cp_size",
        "cp_mode", "hyper_parallel_args", "use_hyper_parallel", "hyper_parallel_cp_size", "use_mca",
        "use_megatron_bridge", "megatron_bridge_args", "use_kt", "kt_config", "dist_config", "ray_num_workers",
        "use_ray", "ray_run_name", "resources_per_worker", "parallelism_config"],
        Absent(PARALLEL, PARALLEL_HINT)),
    row(&["ddp", "ddp_timeout", "ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_broadcast_buffers",
        "local_rank", "world_size", "accelerator_config", "num_processes", "main_process_port",
        "data_shared_file_system", "ddp_static_graph", "ddp_backend", "ignore_bias_buffers", "ray_scope"],
        Unneeded("processes are started and joined as training.config.distributed says")),
    row(&["gc_steps", "gc_collect_steps", "torch_empty_cache_steps"],
        Same("training.config.memory_clear_every")),
    row(&["dataset_processes", "dataset_num_proc", "preprocessing_num_workers", "preprocessing_batch_size",
        "preprocess_iterable", "dataset_keep_in_memory", "dataset_batch_size", "buffer_size"],
        Unneeded("rows are tokenized by the native tokenizer on every core")),
    row(&["dataloader_in_order", "dataloader_multiprocessing_context"],
        Unneeded("rows come from the mapped token cache")),
    row(&["dataset_prepared_path", "overwrite_cache", "tokenized_path", "dataset_shard_num",
        "dataset_shard_idx", "num_dataset_shards_to_save", "is_preprocess"],
        Unneeded(NO_CACHE)),
    row(&["skip_prepare_dataset", "dataset_kwargs"],
        Absent("rows are rendered by the template and tokenized in every case",
            "name texts or messages in training.dataset.path, or a save_to_disk folder of `input_ids` and `labels` in training.config.pretokenized_cache")),
    row(&["remove_unused_columns"], Unneeded("fields that are not used are named in the summary")),
    // Data.
    row(&["streaming", "dataset_streaming"], Composed("training.dataset.streaming")),
    row(&["datasets", "dataset"], Composed(DATA)),
    row(&["dataset_path", "train_file", "dataset_name", "data_path"], Composed(DATA)),
    row(&["dataset_config_name", "dataset_config", "dataset_train_split", "dataset_test_split", "train_split",
        "dataset_dir"],
        Composed(DATA)),
    row(&["split"],
        Absent("the split is part of the path", "write training.dataset.path as `owner/name::split`")),
    row(&["pretraining_dataset"],
        Absent("rows are read from finite files or Hub datasets",
            "name the texts in training.dataset.path; rows with `text` are learned whole")),
    row(&["validation_file", "test_datasets", "eval_dataset"], Composed(VALIDATION)),
    row(&["val_set_size", "val_size", "test_split_size"], Composed("training.dataset.validation_split")),
    row(&["train_on_inputs", "train_on_prompt"], Switch(TRAIN_ON, "all")),
    row(&["mask_history", "completion_only_loss", "assistant_only_loss"], Composed(TRAIN_ON)),
    row(&["dataset_text_field"], Same("training.dataset.text_field")),
    row(&["columns"], Same("training.dataset.field_mapping")),
    row(&["dataset_exact_deduplication"], Same("training.dataset.validation.deduplicate")),
    row(&["mix_strategy", "interleave_probs", "interleave_prob", "stopping_strategy"],
        Absent("the rows of several files are all used, and the tasks of a mixture have weights",
            "name `tasks` with a weight each in training.dataset, and a stopping_strategy")),
    row(&["default_system", "default_system_message", "system_prompt", "system"],
        Absent(NO_DEFAULT_SYSTEM, SYSTEM_HINT)),
    row(&["enable_thinking"], Composed("base_models[].chat_template_kwargs")),
    row(&["chat_template_kwargs"], Same("base_models[].chat_template_kwargs")),
    row(&["tool_format", "preserve_thinking"],
        Absent("the template decides how calls of tools and earlier thoughts are written",
            "use the base's own template, or a `custom` one")),
    row(&["eval_delay", "eval_on_start"],
        Absent("evaluations are after each epoch, or every so many steps", REMOVE)),
    row(&["bf16_full_eval", "fp16_full_eval"], Unneeded("evaluation computes in the number format of training")),
    row(&["eval_do_concat_batches", "eval_use_gather_object", "include_for_metrics", "include_inputs_for_metrics",
        "batch_eval_metrics", "label_names", "past_index"],
        Unneeded("validation rows are measured by their loss; `evaluate` scores answers")),
    row(&["use_cache"], Unneeded("keys and values are kept only where answers are generated")),
    row(&["eval_on_each_dataset"], Absent("validation rows are measured together", REMOVE)),
    // Evaluation, saving and reporting.
    row(&["evals_per_epoch"], Composed("training.config.evaluation_strategy")),
    row(&["saves_per_epoch"], Composed("training.config.save_strategy")),
    row(&["load_best_model"], Same("training.config.load_best_model_at_end")),
    row(&["early_stopping_steps"], Same("training.config.early_stopping_patience")),
    row(&["eval_max_new_tokens", "generation_max_new_tokens", "max_new_tokens"],
        Same("training.decoding.max_new_tokens")),
    row(&["do_train", "do_eval", "do_predict", "predict_with_generate", "do_causal_lm_eval",
        "eval_causal_lm_metrics", "eval_table_size", "compute_accuracy", "generate_samples",
        "num_generation_samples", "do_bench_eval", "eval_num_beams"],
        Unneeded("`train` trains and `evaluate` scores base and adapter, in two commands")),
    row(&["use_wandb", "wandb_project"], Composed(REPORT)),
    row(&["use_tensorboard"], Switch(REPORT, "tensorboard")),
    row(&["wandb_entity", "wandb_name", "wandb_run_id", "wandb_watch", "wandb_log_model", "wandb_mode",
        "run_name", "project_name"],
        Absent("Weights & Biases takes its names from the environment",
            "set WANDB_ENTITY, WANDB_NAME, WANDB_MODE before `train`")),
    row(&["use_mlflow", "mlflow_tracking_uri", "mlflow_experiment_name", "mlflow_run_name",
        "hf_mlflow_log_artifacts", "use_comet", "comet_workspace", "comet_project_name", "comet_experiment_key",
        "comet_mode", "comet_online", "use_swanlab", "swanlab_project", "swanlab_workspace", "swanlab_run_name",
        "swanlab_experiment_name", "swanlab_description", "swanlab_mode", "swanlab_logdir", "use_trackio",
        "trackio_project_name", "trackio_run_name", "trackio_space_id", "use_otel_metrics", "otel_metrics_host",
        "otel_metrics_port"],
        Absent(TRACKING, TRACKER)),
    row(&["project", "trackio_bucket_id", "trackio_static_space_id"],
        Unneeded("it is a setting of Trackio, which is not reported to")),
    row(&["logging_dir"], Unneeded("TensorBoard's files are in the run's folder")),
    row(&["plot_loss", "include_tokens_per_second", "include_effective_tokens_per_second",
        "include_num_input_tokens_seen", "include_tkps", "log_level", "logging_first_step", "logging_strategy",
        "log_level_replica", "log_on_each_node", "logging_nan_inf_filter", "skip_memory_metrics", "disable_tqdm",
        "print_param_status", "metric_logger", "log_every_n_steps", "log_peak_memory_stats"],
        Unneeded("loss, tokens per second and memory are in the live line, events.jsonl and report.html")),
    row(&["profiler_steps", "profiler_steps_start", "profiler"], Flag("`train --profile`")),
    row(&["output_dir"], Flag("`-o DIR`")),
    row(&["resume_from_checkpoint", "auto_resume_from_checkpoints"], Flag("`train --resume`")),
    row(&["overwrite_output_dir"], Flag("`train --fresh`")),
    row(&["save_only_model", "save_safetensors", "save_first_step", "save_on_each_node",
        "export_legacy_format", "enable_jit_checkpoint", "restore_callback_states_from_checkpoint"],
        Unneeded("checkpoints are complete and in safetensors, so that any of them can be resumed")),
    row(&["ignore_data_skip"], Absent("a resumed run continues with the rows that it has not seen", REMOVE)),
    row(&["full_determinism"], Unneeded("the same inputs on the same machine give the same adapter")),
    row(&["use_cpu", "no_cuda"], Flag("`train --device cpu`")),
    row(&["use_mps_device"], Flag("`train --device mps`")),
    row(&["export_dir", "export_size", "export_device", "export_quantization_bit",
        "export_quantization_dataset", "export_quantization_nsamples", "export_quantization_maxlen"],
        Flag("`export`")),
    row(&["hub_model_id", "hub_strategy", "hub_revision", "push_to_hub",
        "export_hub_model_id", "hub_private_repo", "hub_always_push", "push_to_hub_model_id",
        "push_to_hub_organization"],
        Absent(HUB_PUSH, HUB_PUSH_HINT)),
    row(&["push_dataset_to_hub"], Absent(HUB_PUSH, "upload the rows with `hf upload`")),
    row(&["hf_use_auth_token", "hf_hub_token", "hub_token", "hf_token", "ms_hub_token", "om_hub_token",
        "push_to_hub_token", "wandb_api_key", "comet_api_key", "swanlab_api_key", "token", "secrets"],
        Absent(ENVIRONMENT, "set HF_TOKEN, WANDB_API_KEY or the like in the environment, or run `hf auth login`")),
    row(&["infer_backend", "vllm_config", "vllm_maxlen", "vllm_gpu_util", "vllm_enforce_eager",
        "vllm_max_lora_rank", "sglang_config", "use_kv_cache", "gradio_title", "gradio_share",
        "gradio_server_name", "gradio_server_port", "gradio_max_new_tokens", "gradio_temperature"],
        Unneeded("it is about serving; `export` writes a folder that vLLM, llama.cpp and others load")),
    row(&["half_precision_backend", "fp16_backend", "fp16_opt_level", "mp_parameters", "use_ipex", "jit_mode_eval",
        "torchdynamo", "tpu_num_cores", "tpu_metrics_debug", "dispatch_batches", "split_batches",
        "fsdp_min_num_params", "use_legacy_prediction_loop"],
        Unneeded("it is about how transformers' Trainer computes")),
    row(&["strict", "debug", "axolotl_config_path", "plugins", "dynamic_checkpoint", "capabilities_of_env"],
        Unneeded("it is about the other trainer itself")),
    // Other methods.
    row(&["rl", "stage", "trainer_cls", "training_stage"], Composed("training.config.method")),
    row(&["trl", "vllm", "ebft", "reward_model", "process_reward_model", "reward_model_type",
        "reward_model_adapters", "ref_model", "ref_model_adapters", "pref_beta", "pref_ftx", "pref_loss",
        "pref_bco_weight", "dpo_label_smoothing", "dpo_beta", "rl_beta", "orpo_alpha", "cpo_alpha",
        "simpo_gamma", "kto_chosen_weight", "kto_rejected_weight", "kto_desirable_weight",
        "kto_undesirable_weight", "ppo_epochs", "ppo_buffer_size", "ppo_target", "ppo_score_norm",
        "ppo_whiten_rewards", "num_labels", "center_rewards_coefficient", "precompute_ref_log_probs",
        "dpo_use_weighting", "max_prompt_len"],
        Absent(OTHER_METHOD,
            "rows with one right answer train here; `chosen` answers can be learned with field_mapping")),
];

/// A value of another trainer by the key that it stands at, the word that says the same here, and what else to write.
struct Word {
    key: &'static str,
    names: &'static [&'static str],
    here: Option<&'static str>,
    more: &'static str,
}

const fn word(
    key: &'static str,
    names: &'static [&'static str],
    here: Option<&'static str>,
    more: &'static str,
) -> Word {
    Word { key, names, here, more }
}

#[rustfmt::skip]
const WORDS: &[Word] = &[
    word("adapter_type", &["qlora"], Some("lora"), ", and \"quantization\": \"int4\" at the base model"),
    word("adapter_type", &["full", "freeze", "oft", "llama-adapter"],
        None, "only adapters are trained here: \"lora\" with a high rank comes nearest"),
    word("adapter_type", &["lycoris"], Some("lokr"), ""),
    word("optim", &["adamw_8bit", "adamw8bit", "adamw_bnb_8", "ao_adamw_8bit", "bitsandbytes.optim.adamw8bit"],
        Some("adamw_bnb_8bit"), ""),
    word("optim", &["paged_adamw", "paged_adamw_32", "bitsandbytes.optim.pagedadamw"],
        Some("paged_adamw_32bit"), ""),
    word("optim", &["bitsandbytes.optim.pagedadamw8bit"], Some("paged_adamw_8bit"), ""),
    word("optim", &["adamw", "adamw_hf", "adam", "adamw_apex_fused", "adamw_torch_npu_fused",
        "torch.optim.adamw", "optimi_adamw", "flash_adamw"],
        Some("adamw_torch_fused"), ""),
    word("optim", &["torch.optim.sgd"], Some("sgd"), ""),
    word("quantization", &["4bit", "4-bit", "nf4", "fp4", "bnb-4bit", "bnb_nf4", "qlora", "q4", "4"],
        Some("int4"), ""),
    word("quantization", &["8bit", "8-bit", "llm.int8", "bnb-8bit", "bnb", "q8", "8"], Some("int8"), ""),
    word("quantization", &["bfloat16"], Some("bf16"), ""),
    word("quantization", &["float16", "half"], Some("fp16"), ""),
    word("lr_scheduler", &["cosine_with_min_lr", "cosine_warmup_with_min_lr"],
        Some("cosine"), ", and the minimum as a share of learning_rate: \"lr_scheduler_kwargs\": {\"min_lr_ratio\": 0.1}"),
    word("lr_scheduler", &["cosine_annealing", "cosineannealinglr",
        "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup"],
        Some("cosine"), ""),
    word("lr_scheduler", &["onecycle", "one_cycle_lr"], Some("one_cycle"), ""),
    word("lr_scheduler", &["linear_with_warmup"], Some("linear"), ""),
    word("target_modules", &["all", "all_linear", "all-linear-layers"], Some("all-linear"), ""),
    word("prompt_template", &["tokenizer_default", "default", "auto"], Some("tokenizer"), ""),
    word("prompt_template", &["qwen", "qwen2", "qwen_25", "qwen2.5"],
        Some("chatml"), " for a Qwen base up to 2.5, or \"tokenizer\" for the base's own"),
    word("prompt_template", &["llama3", "llama3.1", "llama3.2", "llama4"],
        Some("tokenizer"), ", the template that a Llama 3 base brings itself"),
    word("prompt_template", &["phi_3", "phi_35", "phi3", "phi4"], Some("phi"), ""),
    word("prompt_template", &["gemma2", "gemma3"], Some("gemma"), ""),
    word("prompt_template", &["mistral_v1", "mistral_v2v3", "mistral_v3_tekken", "mistral_v7_tekken"],
        Some("mistral"), ""),
    word("prompt_template", &["llama2"], Some("llama"), ""),
    word("prompt_template", &["jinja"], Some("custom"), ", with the text in template_source"),
];

/// The keys whose values the words of another belong to.
const SAME_WORDS: &[(&str, &str)] = &[("lr_scheduler_type", "lr_scheduler"), ("type", "adapter_type")];

/// What a key of another trainer is here, in any case.
pub fn meaning(name: &str) -> Option<Meaning> {
    let folded = name.to_ascii_lowercase();
    ROWS.iter().find(|row| row.names.contains(&folded.as_str())).map(|row| row.meaning)
}

/// Every key that is known, for "did you mean".
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.names).copied()
}

/// The word that says the same here, for the last part of a setting's path.
pub fn word_here(key: &str, text: &str) -> Option<&'static str> {
    translation(key, text)?.here
}

fn translation(name: &str, text: &str) -> Option<&'static Word> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let last = SAME_WORDS.iter().find(|(other, _)| *other == last).map_or(last, |(_, key)| key);
    let folded = text.to_ascii_lowercase();
    WORDS.iter().find(|word| word.key == last && word.names.contains(&folded.as_str()))
}

/// The hint for a whole configuration of another trainer.
pub(crate) const IMPORT: &str = "run `expert-cli import FILE`: it makes an expert from a configuration of Axolotl, LLaMA-Factory or TRL, and lists \
                                 what cannot be carried over";

/// Whether several of a document's outermost keys are those of another trainer.
pub(crate) fn are_of_another_trainer<'a>(keys: impl Iterator<Item = &'a str>) -> bool {
    keys.filter(|name| counterpart(name).is_some()).nth(2).is_some()
}

/// The hint for a key of another trainer.
pub(crate) fn key(name: &str) -> Option<String> {
    counterpart(name).or_else(|| match meaning(name)? {
        Absent(why, instead) => Some(format!("another trainer's key, without effect here: {why}; {instead}")),
        Unneeded(why) => Some(format!("another trainer's key, and not needed here: {why}")),
        _ => None,
    })
}

/// The same, only where something here has its place.
pub(crate) fn counterpart(name: &str) -> Option<String> {
    Some(match meaning(name)? {
        Same(path) | Composed(path) => format!("another trainer's name; here it is `{path}`"),
        Switch(path, value) => format!("another trainer's name; here it is `{path}: \"{value}\"`"),
        Flag(flag) => format!("another trainer's name; here it is said on the command line: {flag}"),
        Absent(..) | Unneeded(_) => return None,
    })
}

/// The hint for a value of another trainer; `name` is the setting's dotted path.
pub(crate) fn value(name: &str, text: &str) -> Option<String> {
    if name.ends_with(".target_modules") && is_pattern(text) {
        return Some(NO_PATTERNS.to_owned());
    }
    let found = translation(name, text)?;
    Some(found.here.map_or_else(|| found.more.to_owned(), |here| format!("write \"{here}\"{}", found.more)))
}

/// peft reads a text in place of the list of layers as a regular expression.
const NO_PATTERNS: &str = "patterns are not taken: write a list of layers such as `q_proj`, or \
    `layers.0.self_attn.q_proj` for that of one block, or \"all-linear\"";

/// Whether a layer's name has characters that only a regular expression has.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '(', '|', '^', '$', '\\', '+', '?'])
        || name.find(']').is_some_and(|at| at + 1 < name.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{OptimizerName, Quantization, ScheduleKind, TemplateKind};

    /// Each row points at a key that is read, and none is for a key that has its meaning here.
    #[test]
    fn every_row_leads_to_a_key_that_is_read() {
        let ledger: Vec<String> = crate::reference::ledger_rows().into_iter().map(|row| row.path).collect();
        let is_read = |path: &str| ledger.iter().any(|known| known.split(' ').next() == Some(path));
        for row in ROWS {
            if let Same(path) | Composed(path) | Switch(path, _) = row.meaning {
                assert!(is_read(path), "{:?} leads to {path}, which is not a key", row.names);
            }
        }
    }

    #[test]
    fn a_name_has_one_meaning() {
        let mut seen = BTreeSet::new();
        for name in names() {
            assert!(seen.insert(name), "{name} stands twice");
            assert_eq!(name, name.to_ascii_lowercase());
        }
        assert!(seen.len() > 400, "{}", seen.len());
    }

    #[test]
    fn words_are_words_here() {
        for word in WORDS {
            let words = match word.key {
                "adapter_type" => crate::plan::AdapterKind::WORDS,
                "optim" => OptimizerName::WORDS,
                "quantization" => Quantization::WORDS,
                "lr_scheduler" => ScheduleKind::WORDS,
                "prompt_template" => TemplateKind::WORDS,
                "target_modules" => &[crate::manifest::Modules::ALL_LINEAR],
                other => panic!("{other} has no words"),
            };
            assert!(word.here.is_none_or(|here| words.contains(&here)), "{:?}", word.names);
            assert!(word.names.iter().all(|name| !words.contains(name)), "{:?}", word.names);
        }
    }
}
