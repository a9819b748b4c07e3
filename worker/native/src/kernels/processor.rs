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
}
