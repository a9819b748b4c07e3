//! What a run is sized by: the settings that decide its memory, and what follows from them on this machine.

use crate::budget::{self, Load, Shape};
use crate::manifest::{Config, Together};
use crate::plan::{
    Adapter, CheckpointingMode, DeviceKind, Distributed, DistributedStrategy, Dtype, Quantization, Recipe,
};

use super::fit::{self, Room};
use super::note::Note;
use super::site::Site;

/// The settings that decide a run's memory and that another proposal may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub quantization: Quantization,
    pub distributed: Option<Distributed>,
    pub checkpointing: CheckpointingMode,
    /// Of the rows as they are tokenized: soft prompts come before them.
    pub max_seq_length: u64,
}

impl Layout {
    /// The processes that FSDP2 shards the base over.
    pub fn sharded_over(&self) -> Option<u32> {
        let sharded = self.distributed.filter(|it| it.strategy == DistributedStrategy::Fsdp2);
        sharded.map(|it| it.processes)
    }
}

/// What a layout is computed in, and by what.
pub struct Formats {
    pub dtype: Dtype,
    pub fp32_products: bool,
    pub fast_path: bool,
}

pub fn formats(
    config: &Config,
    recipe: &Recipe,
    layout: &Layout,
    site: &Site,
    notes: &mut Vec<Note>,
) -> Formats {
    let asked = recipe.precision.compute;
    let dtype = fit::dtype(asked, layout.quantization, site.device.kind, site.computes_bf16, notes);
    let is_sharded = layout.sharded_over().is_some();
    Formats {
        dtype,
        // A shard holds weights of one format only.
        fp32_products: !is_sharded && fit::fp32_products(dtype, site.device.kind, site.products_in_fp32),
        // Only the base's own modules can work with sharded weights, and only they have eager attention.
        fast_path: !is_sharded && !eager_attention(config, site) && recipe.adapter.takes_fast_path(),
    }
}

/// Whether flash-attn computes the attention, if it is installed.
pub fn flash(config: &Config, site: &Site) -> bool {
    *config.flash_attention_2 && site.device.kind == DeviceKind::Cuda
}

fn eager_attention(config: &Config, site: &Site) -> bool {
    !*config.use_sdpa && !flash(config, site)
}

/// None where the device's memory is not known. The processes on this machine that train together share a CPU's.
pub fn room(distributed: Option<Distributed>, site: &Site) -> Option<Room> {
    let processes = match site.device.kind {
        DeviceKind::Cpu if site.launched.is_some() => site.launched_here.unwrap_or(1),
        DeviceKind::Cpu => distributed.map_or(1, |it| it.processes),
        DeviceKind::Cuda | DeviceKind::Mps => 1,
    };
    let processes = u64::from(processes.max(1));
    site.device.memory_bytes.map(|device| Room { device, processes })
}

/// Sizes layouts of one run.
pub struct Sizing<'a> {
    pub config: &'a Config,
    pub recipe: &'a Recipe,
    pub site: &'a Site,
    pub shape: &'a Shape,
    /// With the names of layers in place of `all-linear`.
    pub adapter: &'a Adapter,
}

impl<'a> Sizing<'a> {
    /// Of one row.
    pub fn load(&self, layout: Layout) -> Load<'a> {
        let Self { config, recipe, site, shape, adapter } = *self;
        let Formats { dtype, fp32_products, fast_path } =
            formats(config, recipe, &layout, site, &mut Vec::new());
        let on_cpu = site.device.kind == DeviceKind::Cpu;
        let mut load = Load {
            shape,
            quantization: layout.quantization,
            adapter,
            optimizer: recipe.optimizer.name,
            dtype,
            fp32_products,
            device: site.device.kind,
            checkpointing: layout.checkpointing,
            fast_path: fast_path && shape.fast_path,
            eager_attention: eager_attention(config, site) || (shape.eager_attention && !flash(config, site)),
            sharded_over: layout.sharded_over().map_or(1, u64::from),
            piece_tokens: on_cpu.then_some(budget::SMALL_PIECE),
            rows: 1,
            row_length: layout.max_seq_length + adapter.virtual_tokens(),
            fused: false,
        };
        load.piece_tokens = load.piece_tokens.map(|_| budget::piece_tokens(&load));
        load
    }

    /// What a process may fill. Shards of a base take as much memory on the smallest device as on the others.
    pub fn usable(&self, layout: Layout) -> Option<u64> {
        let room = room(layout.distributed, self.site)?;
        let least = self.site.least_memory.filter(|_| layout.sharded_over().is_some());
        let device = least.map_or(room.device, |least| least.min(room.device));
        Some(Room { device, ..room }.usable())
    }

    /// The format that holds the base in the least memory. FSDP2 shards no quantized weights, and rules refuse them also where
    /// there is only one process.
    pub fn smallest_format(&self) -> Option<Quantization> {
        let wanted = self.config.distributed.as_ref();
        let is_sharded = wanted.is_some_and(|it| *it.strategy == Together::Fsdp2);
        (!is_sharded).then(|| self.recipe.adapter.kind.smallest_format())
    }

    /// FSDP2 over the processes that this run can have; none where it cannot shard the base.
    pub fn sharded(&self) -> Option<Distributed> {
        let named = self.config.distributed.as_ref().and_then(|it| *it.processes);
        let processes = self.site.launched.or(named).unwrap_or(self.site.devices);
        let has_them = processes > 1 && self.site.device.kind != DeviceKind::Mps;
        let can = self.shape.can_be_sharded() && !self.recipe.adapter.kind.is_soft_prompt();
        (has_them && can).then_some(Distributed { strategy: DistributedStrategy::Fsdp2, processes })
    }
}
