//! What an estimate depends on.

use super::shape::{Linear, Shape};
use crate::families::selects;
use crate::plan::{Adapter, AdapterKind, CheckpointingMode, DeviceKind, Dtype, OptimizerName, Quantization};

/// Adapter weights, their gradients and the optimizer's moments are fp32 for any base.
pub(super) const MASTER_BYTES: u64 = 4;
/// As in the worker's `adapted_linear/mlp.py`.
const MOST_RANKS_INSIDE: u32 = 32;

#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    pub shape: &'a Shape,
    pub quantization: Quantization,
    /// With the names of layers in place of `all-linear`.
    pub adapter: &'a Adapter,
    pub optimizer: OptimizerName,
    pub dtype: Dtype,
    /// A 16-bit base is held and computed in fp32.
    pub fp32_products: bool,
    pub device: DeviceKind,
    pub checkpointing: CheckpointingMode,
    pub fast_path: bool,
    /// Attention forms the scores of all pairs of tokens at once, on the plain path.
    pub eager_attention: bool,
    /// Processes that the base's weights are sharded over; 1 if each holds all of them.
    pub sharded_over: u64,
    pub piece_tokens: Option<u64>,
    pub rows: u64,
    /// With the virtual tokens of soft prompts.
    pub row_length: u64,
    /// Several experts train in one pass.
    pub fused: bool,
}

impl Load<'_> {
    /// Elementwise operations are those of the worker's native module.
    pub(super) fn takes_native_kernels(&self) -> bool {
        let has_them = self.number_bytes() == 4 || self.dtype == Dtype::Bf16;
        self.fast_path && self.device == DeviceKind::Cpu && has_them
    }

    /// The loss is formed in the place of its logits, by the native module.
    pub(super) fn takes_native_loss(&self) -> bool {
        self.takes_native_kernels() && self.number_bytes() == 2
    }

    /// Whether a GPU's kernels for the MLP add what LoRA adds, without keeping the product of gate and up. Cards that compute
    /// in bf16 have them.
    pub fn adapts_inside_mlp(&self) -> bool {
        self.adapts_inside(&["gate_proj", "up_proj", "down_proj"])
    }

    /// The same for queries, keys and values, whose norms and positions add what LoRA adds.
    pub fn adapts_inside_heads(&self) -> bool {
        self.adapts_inside(&["q_proj", "k_proj", "v_proj"])
    }

    fn adapts_inside(&self, layers: &[&str]) -> bool {
        let is_lora = matches!(self.adapter.kind, AdapterKind::Lora | AdapterKind::Rslora);
        let on_card = self.fast_path && self.device == DeviceKind::Cuda && self.dtype == Dtype::Bf16;
        is_lora
            && on_card
            && !self.fused
            && self.adapter.rank.is_some_and(|rank| rank <= MOST_RANKS_INSIDE)
            && layers.iter().all(|name| self.shape.first(name).is_some_and(|linear| self.targets(linear)))
    }

    /// Whether this layer gets an adapter.
    pub fn targets(&self, linear: &Linear) -> bool {
        targets(self.adapter, linear)
    }

    /// Bytes of one number of the activations.
    pub(super) fn number_bytes(&self) -> u64 {
        if self.fp32_products { 4 } else { dtype_bytes(self.dtype) }
    }
}

pub(super) fn dtype_bytes(dtype: Dtype) -> u64 {
    if dtype == Dtype::Fp32 { 4 } else { 2 }
}

pub(super) fn targets(adapter: &Adapter, linear: &Linear) -> bool {
    adapter.target_modules.iter().any(|name| selects(name, &linear.name))
}
