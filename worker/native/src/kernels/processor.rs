//! The instructions that the kernels use.

use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// Those of every processor of this kind.
    Plain,
    Avx2,
    Avx512,
}

static INSTRUCTIONS: LazyLock<Instructions> =
    LazyLock::new(|| allowed(std::env::var("ATEN_CPU_CAPABILITY").ok().as_deref()).min(possible()));

pub fn instructions() -> Instructions {
    *INSTRUCTIONS
}

/// What torch is held to by its own variable, this module is held to as well.
fn allowed(capability: Option<&str>) -> Instructions {
    match capability {
        Some("default") => Instructions::Plain,
        Some("avx2") => Instructions::Avx2,
        _ => Instructions::Avx512,
    }
}

fn possible() -> Instructions {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        if avx2 && is_x86_feature_detected!("avx512f") {
            return Instructions::Avx512;
        }
        if avx2 {
            return Instructions::Avx2;
        }
    }
    Instructions::Plain
}

/// The instructions for products in bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bf16Products {
    /// None: a product there is formed in fp32.
    No,
    /// AVX512-BF16: dot products of pairs.
    Pairs,
    /// AMX: tiles.
    Tiles,
}

static BF16_PRODUCTS: LazyLock<Bf16Products> = LazyLock::new(|| {
    let held = std::env::var("ONEDNN_MAX_CPU_ISA").or_else(|_| std::env::var("DNNL_MAX_CPU_ISA"));
    if instructions() < Instructions::Avx512 {
        Bf16Products::No
    } else {
        allowed_bf16(held.ok().as_deref()).min(possible_bf16())
    }
});

pub fn bf16_products() -> Bf16Products {
    *BF16_PRODUCTS
}

/// What oneDNN, which forms torch's products in bf16, is held to by its own variable, this module is held to as well.
fn allowed_bf16(isa: Option<&str>) -> Bf16Products {
    let Some(isa) = isa else { return Bf16Products::Tiles };
    let isa = isa.to_ascii_uppercase();
    if isa == "DEFAULT" || isa == "ALL" || isa.contains("AMX") || isa.starts_with("AVX10_2") {
        Bf16Products::Tiles
    } else if isa == "AVX512_CORE_BF16" || isa == "AVX512_CORE_FP16" || isa.starts_with("AVX10") {
        Bf16Products::Pairs
    } else {
        Bf16Products::No
    }
}

fn possible_bf16() -> Bf16Products {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512bf16") {
            return if tiles_work() { Bf16Products::Tiles } else { Bf16Products::Pairs };
        }
    }
    Bf16Products::No
}

/// Linux saves the tiles of a thread only for a process that asked for it.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn tiles_work() -> bool {
    use std::arch::x86_64::__cpuid_count;

    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    let features = __cpuid_count(7, 0).edx;
    if features & AMX_BF16 == 0 || features & AMX_TILE == 0 {
        return false;
    }
    let answer: i64;
    // SAFETY: the call changes only what this process may use; it clobbers the registers that are named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn tiles_work() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_of_torch_is_an_upper_bound() {
        assert_eq!(allowed(Some("default")), Instructions::Plain);
        assert_eq!(allowed(Some("avx2")), Instructions::Avx2);
        assert_eq!(allowed(Some("avx512")), Instructions::Avx512);
        assert_eq!(allowed(None), Instructions::Avx512);
        assert!(instructions() <= possible());
    }

    #[test]
    fn the_variable_of_onednn_is_an_upper_bound() {
        assert_eq!(allowed_bf16(None), Bf16Products::Tiles);
        assert_eq!(allowed_bf16(Some("avx512_core_amx")), Bf16Products::Tiles);
        assert_eq!(allowed_bf16(Some("AVX512_CORE_BF16")), Bf16Products::Pairs);
        assert_eq!(allowed_bf16(Some("AVX512_CORE")), Bf16Products::No);
        assert_eq!(allowed_bf16(Some("AVX2")), Bf16Products::No);
        assert!(bf16_products() <= possible_bf16());
    }
}
