//! How the recipe is computed on this machine.

use std::collections::BTreeMap;

use crate::budget::{self, Load};
use crate::families;
use crate::manifest::{CompileMode, Config, Effective, Root, Together, model_slug};
use crate::paths::{DEFAULT_CACHE, Target, anywhere, data_path, fill_placeholders, mirror_target};
use crate::plan::{
    Compile, DeviceKind, Distributed, DistributedStrategy, Dtype, JudgeEndpoint, Loader, Logging, Machine,
    MemoryEstimate, Mirror, Paths, Recipe, ScorerSettings, TrainOn,
};
use crate::speed::{Reading, Work};

use super::base::FoundBase;
use super::data::DataFacts;
use super::fit;
use super::graphs;
use super::modules;
use super::note::Note;
use super::remedy::{self, Remedy};
use super::site::{Found, Site};
use super::sizing::{Formats, Layout, Sizing, flash, formats, room};
use super::sources::Sources;

/// The machine's half of the plan, and what follows from the base's shape where that is known.
pub struct Built {
    pub machine: Machine,
    /// The most rows that fit at once.
    pub largest_micro_batch: Option<u64>,
    /// Where not even one row fits: what makes it fit.
    pub remedies: Vec<Remedy>,
    pub work: Option<Work>,
    pub fast_format: Option<Dtype>,
}

pub fn build(
    expert: &Effective<'_>,
    recipe: &Recipe,
    base: &FoundBase,
    sources: &Sources,
    facts: &[DataFacts],
    site: &Site,
    notes: &mut Vec<Note>,
) -> Built {
    let config = &expert.config;
    let distributed = distributed(config, site, notes);
    notes.extend(without_rows(distributed, recipe.batch.rows_per_step, site));
    let processes = distributed.map_or(1, |it| u64::from(it.processes));
    let layout = Layout {
        quantization: recipe.base.quantization,
        distributed,
        checkpointing: expert.checkpointing(),
        max_seq_length: u64::from(recipe.batch.max_seq_length),
    };
    // A step that the data chose may have fewer rows, and a process has its share of them.
    let wanted = (*config.batch_size).min(recipe.batch.rows_per_step.div_ceil(processes));
    let named = base.shape.as_ref().map(|shape| modules::named(&recipe.adapter, shape));
    let on_cpu = site.device.kind == DeviceKind::Cpu;
    let Formats { dtype, fp32_products, fast_path } = formats(config, recipe, &layout, site, notes);
    let on_fast_path = fast_path && base.shape.as_ref().is_some_and(|shape| shape.fast_path);
    let fast_format = on_fast_path.then_some(dtype);
    let compile = compile(config, site, fast_format, notes);
    let mut piece_tokens = on_cpu.then_some(budget::SMALL_PIECE);
    let sized = base.shape.as_ref().zip(named.as_ref()).map(|(shape, adapter)| {
        let sizing = Sizing { config, recipe, site, shape, adapter };
        let load = Load { rows: wanted, ..sizing.load(layout) };
        piece_tokens = load.piece_tokens;
        let found = fit::micro_batch(&load, wanted, room(distributed, site), notes);
        let remedies = remedy::remedies(&sizing, layout, &found, notes);
        let load = Load { rows: found.rows, ..load };
        let work = Work::of(&load, compile.is_some(), reading(recipe, facts));
        ((found, remedies), work)
    });
    let (sized, work) = sized.unzip();
    let (sized, remedies) = sized.unzip();
    if sized.is_none() {
        notes.push(no_budget(base));
    }
    let micro_batch = sized.as_ref().map_or(wanted, |it| it.rows);
    let work = work.flatten();
    let as_mode = compile.is_some() && *config.torch_compile_mode == CompileMode::ReduceOverhead;
    let asked = (*config.use_cuda_graphs).or(as_mode.then_some(true));
    let cuda_graphs = graphs::wanted(asked, recipe, site, fast_format, processes, work, notes);
    let work = work.map(|work| if cuda_graphs.is_some() { work.captured() } else { work });
    let machine = Machine {
        device: site.device.clone(),
        dtype,
        fp32_products,
        micro_batch,
        accumulation: recipe.batch.rows_per_step.div_ceil(micro_batch * processes),
        distributed,
        piece_tokens,
        fast_path,
        kernels: BTreeMap::new(),
        flash_attention: flash_attention(config, site, notes),
        sdpa: *config.use_sdpa,
        checkpointing: layout.checkpointing,
        compile,
        cuda_graphs,
        memory_clear_every: config.memory_clear_every.filter(|steps| *steps > 0),
        threads: site.threads,
        loader: loader(expert),
        logging: Logging { steps: *config.logging_steps, trackers: config.report.0.clone() },
        save_total_limit: *config.save_total_limit,
        mirror: config.checkpoint_mirror.as_ref().map(|mirror| {
            let filled = fill_placeholders(&mirror.target, &recipe.expert, &recipe.base.name);
            Mirror {
                target: match mirror_target(&filled, site.expert_dir()) {
                    Target::Folder(folder) => text(&folder),
                    _ => filled,
                },
                compress: *mirror.compress,
                background: *mirror.background && !site.wait_for_mirror,
            }
        }),
        judge: judge(&expert.manifest.root),
        paths: paths(recipe, base, sources, site, config),
        estimate: sized.as_ref().map_or_else(MemoryEstimate::default, |it| it.estimate.clone()),
        modules: base
            .shape
            .as_ref()
            .zip(named.as_ref())
            .filter(|(shape, _)| shape.names_known)
            .map(|(shape, adapter)| modules::adapted(adapter, shape)),
    };
    let largest_micro_batch = sized.and_then(|it| it.largest);
    Built { machine, largest_micro_batch, remedies: remedies.unwrap_or_default(), work, fast_format }
}

fn no_budget(base: &FoundBase) -> Note {
    let name = &base.logical;
    let (message, hint) = match &base.architecture {
        Some(architecture) if families::family(architecture).is_none() => (
            format!(
                "the layers of `{architecture}` are known from weights only, and those of {name} cannot be read here: \
                 memory is not estimated"
            ),
            "put the base's weights on this machine, as safetensors that are not quantized, and plan again",
        ),
        _ => (
            format!("the dimensions of {name} are not known here, so memory is not estimated"),
            "put the base's folder or Hub cache on this machine and plan again",
        ),
    };
    Note::new("no-budget", message, hint)
}

/// Share of the tokens that are answers, where only those are learnt: known once the rows are tokenized.
const ANSWERS: f64 = 0.3;
/// Tokens of a document whose rows are not counted.
const DOCUMENT: f64 = 400.0;

fn reading(recipe: &Recipe, facts: &[DataFacts]) -> Reading {
    let tokens: Option<u64> = facts.iter().map(DataFacts::tokens).sum();
    let rows: Option<u64> = facts.iter().map(|it| it.rows).sum();
    let known = tokens.zip(rows).filter(|(_, rows)| *rows > 0);
    let document = known.map_or(DOCUMENT, |(tokens, rows)| tokens as f64 / rows as f64);
    let longest = f64::from(recipe.batch.max_seq_length);
    let document = document.clamp(1.0, longest.max(1.0));
    Reading {
        supervised: if recipe.data.train_on == TrainOn::All { 1.0 } else { ANSWERS },
        document,
        row: if recipe.batch.packing { longest } else { document },
    }
}

fn distributed(config: &Config, site: &Site, notes: &mut Vec<Note>) -> Option<Distributed> {
    let wanted = config.distributed.as_ref();
    let strategy = match wanted.map(|it| *it.strategy) {
        Some(Together::Ddp) | None => DistributedStrategy::Ddp,
        Some(Together::Fsdp2) => DistributedStrategy::Fsdp2,
        Some(Together::Deepspeed) => return None,
    };
    // A launcher has started them already; rules refuse another number.
    if let Some(processes) = site.launched {
        return Some(Distributed { strategy, processes });
    }
    let wanted = wanted?;
    let processes = wanted.processes.unwrap_or(site.devices);
    if processes > 1 {
        return Some(Distributed { strategy, processes });
    }
    notes.push(Note::new(
        "one-process",
        format!("`distributed` sets {strategy}, but there is only one process here, so it has no effect"),
        "give `processes` a number, or remove the key to silence this",
    ));
    None
}

/// A step's rows are divided. Rules refuse this where the manifest has both numbers.
fn without_rows(together: Option<Distributed>, rows: u64, site: &Site) -> Option<Note> {
    let Distributed { strategy, processes } = together?;
    let idle = u64::from(processes).checked_sub(rows).filter(|idle| *idle > 0)?;
    let counted =
        |count: u64, word: &str, words: &str| format!("{count} {}", if count == 1 { word } else { words });
    let more = format!("in training.config, set batch_size {processes} with gradient_accumulation_steps 1");
    let fewer = match strategy {
        // The base may need the memory of all of them.
        DistributedStrategy::Fsdp2 => None,
        DistributedStrategy::Ddp if site.launched.is_some() => {
            Some(format!("start {} with the launcher", counted(rows, "process", "processes")))
        }
        DistributedStrategy::Ddp if rows == 1 => Some("remove `distributed`".to_owned()),
        DistributedStrategy::Ddp => Some(format!("distributed.processes {rows}")),
    };
    Some(Note::new(
        "processes-without-rows",
        format!(
            "{processes} processes share a step of {}: {idle} of them {} nothing to do",
            counted(rows, "row", "rows"),
            if idle == 1 { "has" } else { "have" }
        ),
        std::iter::once(more).chain(fewer).collect::<Vec<_>>().join(", or "),
    ))
}

/// What the plan may fill of the device's memory.
pub fn usable_memory(machine: &Machine, site: &Site) -> Option<u64> {
    room(machine.distributed, site).map(fit::Room::usable)
}

/// `format`: of the fast path.
fn flash_attention(config: &Config, site: &Site, notes: &mut Vec<Note>) -> bool {
    let asked = *config.flash_attention_2;
    let has_effect = flash(config, site);
    if asked && !has_effect {
        notes.push(Note::new(
            "flash-attention-unused",
            format!(
                "`flash_attention_2` has no effect: flash-attn needs CUDA, and the device is {}",
                site.device.kind
            ),
            "remove it to silence this",
        ));
    }
    has_effect
}

fn compile(config: &Config, site: &Site, format: Option<Dtype>, notes: &mut Vec<Note>) -> Option<Compile> {
    let asked = *config.torch_compile;
    asked.unwrap_or_else(|| is_found_right(site, format, notes)).then(|| Compile {
        backend: config.torch_compile_backend.value.clone(),
        mode: match *config.torch_compile_mode {
            CompileMode::ReduceOverhead => CompileMode::Default.as_str().to_owned(),
            mode => mode.as_str().to_owned(),
        },
        asked: asked.is_some(),
    })
}

fn is_found_right(site: &Site, format: Option<Dtype>, notes: &mut Vec<Note>) -> bool {
    let Some(format @ (Dtype::Bf16 | Dtype::Fp16)) = format else { return false };
    if site.device.kind != DeviceKind::Cuda {
        return false;
    }
    let found = site.compiled.iter().find(|it| it.format == format);
    let (why, hint) = match found {
        Some(Found { refused: None, .. }) => return true,
        Some(Found { refused: Some(reason), .. }) => {
            (reason.clone(), "set `torch_compile` to false, or to true to compile all the same")
        }
        None => (not_verified(site), "run `expert-cli doctor --prove` there once, or set `torch_compile`"),
    };
    notes.push(Note::new("not-compiled", format!("the layers are not compiled: {why}"), hint));
    false
}

/// For a way of computing that `doctor --prove` has not compared on this card.
pub(super) fn not_verified(site: &Site) -> String {
    format!("not yet verified on {}", site.device.name)
}

fn loader(expert: &Effective<'_>) -> Loader {
    let config = &expert.config;
    let workers = *config.dataloader_num_workers;
    Loader {
        use_cache: expert.uses_cache(),
        workers,
        pin_memory: *config.dataloader_pin_memory,
        prefetch_factor: config.dataloader_prefetch_factor.filter(|_| workers > 0),
    }
}

fn judge(root: &Root) -> Option<JudgeEndpoint> {
    let judge = root.evaluation.scorer.as_ref()?.choice()?.judge.as_ref()?;
    Some(JudgeEndpoint {
        url: judge.url.value.clone(),
        key_variable: judge.key_variable.value.clone(),
        timeout_seconds: *judge.timeout_seconds,
        concurrency: *judge.concurrency,
    })
}

/// The file of the expert's own scorer.
fn scorer(recipe: &Recipe) -> Option<&str> {
    match recipe.evaluation.scorer_settings.as_ref()? {
        ScorerSettings::Python { file, .. } => Some(file),
        _ => None,
    }
}

fn paths(recipe: &Recipe, base: &FoundBase, sources: &Sources, site: &Site, config: &Config) -> Paths {
    let expert_dir = site.expert_dir();
    let slug = model_slug(&recipe.base.name);
    let filled =
        |cache: &str| anywhere(&fill_placeholders(cache, &recipe.expert, &recipe.base.name), expert_dir);
    let cache = config.pretokenized_cache.as_deref().and_then(filled);
    let cache = cache.unwrap_or_else(|| {
        expert_dir.join(fill_placeholders(DEFAULT_CACHE, &recipe.expert, &recipe.base.name))
    });
    let output = site.output.clone().unwrap_or_else(|| expert_dir.join("weights").join(&slug));
    Paths {
        manifest: text(&site.manifest),
        expert_dir: text(expert_dir),
        output: text(&output),
        cache: text(&cache),
        home: text(&site.home),
        base: base.folder().map(text),
        data: sources.paths.iter().map(|(name, path)| (name.clone(), text(path))).collect(),
        scorer: scorer(recipe).map(|file| text(&data_path(file, expert_dir))),
        initial_adapter: recipe.adapter.initial.as_ref().map(|folder| text(&data_path(folder, expert_dir))),
    }
}

fn text(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}
