//! Cards that a plan can be made for without having one.

use expert_contract::diagnostic::did_you_mean;
use expert_contract::plan::{Device, DeviceKind};
use expert_contract::speed::Limits;

use crate::sys::host::Found;

/// Another machine: a card by name, or any card of a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    typed: String,
    name: String,
    memory_bytes: u64,
    /// Compute capability, where the card is known.
    capability: Option<(u32, u32)>,
    count: u32,
}

struct Known {
    /// As `--for` takes it.
    word: &'static str,
    name: &'static str,
    /// As the driver reports it.
    mebibytes: u64,
    capability: (u32, u32),
    /// As its maker says: TFLOP/s of dense 16-bit products with sums in 32 bits, and GB/s of its memory.
    speed: (f64, f64),
}

const fn card(
    word: &'static str,
    name: &'static str,
    mebibytes: u64,
    capability: (u32, u32),
    speed: (f64, f64),
) -> Known {
    Known { word, name, mebibytes, capability, speed }
}

const CARDS: [Known; 37] = [
    card("v100-16gb", "Tesla V100 16GB", 16_384, (7, 0), (125.0, 900.0)),
    card("v100-32gb", "Tesla V100 32GB", 32_768, (7, 0), (125.0, 900.0)),
    card("t4", "Tesla T4", 15_360, (7, 5), (65.0, 320.0)),
    card("rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", 11_264, (7, 5), (53.8, 616.0)),
    card("a100-40gb", "NVIDIA A100 40GB", 40_960, (8, 0), (312.0, 1555.0)),
    card("a100-80gb", "NVIDIA A100 80GB", 81_920, (8, 0), (312.0, 2039.0)),
    card("a10", "NVIDIA A10", 23_028, (8, 6), (125.0, 600.0)),
    card("a10g", "NVIDIA A10G", 23_028, (8, 6), (70.0, 600.0)),
    card("a40", "NVIDIA A40", 46_068, (8, 6), (149.7, 696.0)),
    card("rtx3060", "NVIDIA GeForce RTX 3060", 12_288, (8, 6), (25.5, 360.0)),
    card("rtx3070", "NVIDIA GeForce RTX 3070", 8_192, (8, 6), (40.6, 448.0)),
    card("rtx3080", "NVIDIA GeForce RTX 3080", 10_240, (8, 6), (59.5, 760.0)),
    card("rtx3090", "NVIDIA GeForce RTX 3090", 24_576, (8, 6), (71.2, 936.0)),
    card("rtxa4000", "NVIDIA RTX A4000", 16_376, (8, 6), (76.7, 448.0)),
    card("rtxa5000", "NVIDIA RTX A5000", 24_564, (8, 6), (111.1, 768.0)),
    card("rtxa6000", "NVIDIA RTX A6000", 49_140, (8, 6), (154.8, 768.0)),
    card("l4", "NVIDIA L4", 23_034, (8, 9), (121.0, 300.0)),
    card("l40", "NVIDIA L40", 46_068, (8, 9), (181.0, 864.0)),
    card("l40s", "NVIDIA L40S", 46_068, (8, 9), (362.0, 864.0)),
    card("rtx4060", "NVIDIA GeForce RTX 4060", 8_188, (8, 9), (30.2, 272.0)),
    card("rtx4060ti-16gb", "NVIDIA GeForce RTX 4060 Ti 16GB", 16_380, (8, 9), (44.1, 288.0)),
    card("rtx4070", "NVIDIA GeForce RTX 4070", 12_282, (8, 9), (58.3, 504.0)),
    card("rtx4080", "NVIDIA GeForce RTX 4080", 16_376, (8, 9), (97.5, 717.0)),
    card("rtx4090", "NVIDIA GeForce RTX 4090", 24_564, (8, 9), (165.2, 1008.0)),
    card("rtx6000ada", "NVIDIA RTX 6000 Ada Generation", 49_140, (8, 9), (364.2, 960.0)),
    card("h100", "NVIDIA H100 80GB", 81_559, (9, 0), (989.0, 3350.0)),
    card("h100-80gb", "NVIDIA H100 80GB", 81_559, (9, 0), (989.0, 3350.0)),
    card("h100-nvl", "NVIDIA H100 NVL", 95_830, (9, 0), (835.0, 3900.0)),
    card("gh200", "NVIDIA GH200 96GB", 97_871, (9, 0), (990.0, 4000.0)),
    card("h200", "NVIDIA H200", 143_771, (9, 0), (989.0, 4800.0)),
    card("b200", "NVIDIA B200", 183_359, (10, 0), (2250.0, 8000.0)),
    card("rtx5060ti-16gb", "NVIDIA GeForce RTX 5060 Ti 16GB", 16_311, (12, 0), (47.4, 448.0)),
    card("rtx5070", "NVIDIA GeForce RTX 5070", 12_227, (12, 0), (61.7, 672.0)),
    card("rtx5070ti", "NVIDIA GeForce RTX 5070 Ti", 16_303, (12, 0), (87.9, 896.0)),
    card("rtx5080", "NVIDIA GeForce RTX 5080", 16_303, (12, 0), (112.6, 960.0)),
    card("rtx5090", "NVIDIA GeForce RTX 5090", 32_607, (12, 0), (209.5, 1792.0)),
    card("rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell", 97_887, (12, 0), (503.8, 1792.0)),
];

/// The first capability whose tensor cores compute in bf16.
const BF16: u32 = 8;
/// Shares of their products' limit that cards reach: those with the most are held back by their power.
const REACHED: f64 = 0.9;
const REACHED_BY_LARGE: f64 = 0.64;
const LARGE_TERA_FLOPS: f64 = 800.0;

impl Known {
    fn limits(&self) -> Limits {
        let (tera_flops, gigabytes) = self.speed;
        let reached = if tera_flops >= LARGE_TERA_FLOPS { REACHED_BY_LARGE } else { REACHED };
        Limits { tera_flops, gigabytes, reached }
    }
}

/// Of a card as its driver names it. Those of laptops, slices and PCIe boards of data centres have other limits.
pub fn limits(name: &str) -> Option<Limits> {
    let name = fold(name).replace("sxm2", "").replace("sxm4", "").replace("hbm3", "");
    let find = |is_it: &dyn Fn(&str) -> bool| CARDS.iter().find(|known| is_it(&fold(known.name)));
    // Drivers leave the memory's size out of most names.
    find(&|known| known == name).or_else(|| find(&|known| without_size(known) == name)).map(Known::limits)
}

fn without_size(folded: &str) -> &str {
    let sizes = ["16gb", "32gb", "40gb", "80gb", "96gb"];
    sizes.iter().find_map(|size| folded.strip_suffix(size)).unwrap_or(folded)
}

impl Card {
    /// `rtx4090`, `24GB`, `2xh100`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (typed, folded) = (text.to_owned(), fold(text));
        let (count, word) = match folded.split_once('x') {
            Some((count, word)) if !count.is_empty() && count.bytes().all(|it| it.is_ascii_digit()) => {
                let count = count.parse().ok().filter(|count| (1..=64).contains(count));
                (count.ok_or("a machine has 1 to 64 cards")?, word.to_owned())
            }
            _ => (1, folded.clone()),
        };
        if let Some((amount, unit)) = size(&word) {
            let memory_bytes = amount.filter(|it| (1..=1024).contains(it)).map(|it| it * unit);
            let memory_bytes = memory_bytes.ok_or("a card has 1 GB to 1 TB of memory, such as 24GB")?;
            let name = format!("a card with {}", word.to_uppercase());
            return Ok(Self { typed, name, memory_bytes, capability: None, count });
        }
        let is_it = |known: &&Known| {
            let own = fold(known.word);
            own == word || own.strip_prefix("rtx") == Some(&word) || fold(known.name) == word
        };
        let known = CARDS.iter().find(is_it).ok_or_else(|| unknown(&word))?;
        Ok(Self {
            typed,
            name: known.name.to_owned(),
            memory_bytes: known.mebibytes << 20,
            capability: Some(known.capability),
            count,
        })
    }

    /// As `--for` was given it.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// As if it had been found here.
    pub fn found(&self) -> Found {
        Found {
            device: Device {
                kind: DeviceKind::Cuda,
                index: 0,
                name: self.name.clone(),
                memory_bytes: Some(self.memory_bytes),
            },
            devices: self.count,
            computes_bf16: self.capability.is_none_or(|(major, _)| major >= BF16),
        }
    }

    /// Whether its products and bandwidth are known.
    pub fn has_limits(&self) -> bool {
        limits(&self.name).is_some()
    }

    /// What the plan takes for granted.
    pub fn description(&self) -> String {
        let cards = if self.count > 1 { format!("{} of ", self.count) } else { String::new() };
        let memory = expert_contract::resolve::gibibytes(self.memory_bytes);
        let compute = match self.capability {
            Some((major, minor)) if major >= BF16 => format!("compute capability {major}.{minor}, with bf16"),
            Some((major, minor)) => format!("compute capability {major}.{minor}, without bf16"),
            None => "bf16 assumed, as from compute capability 8.0".to_owned(),
        };
        format!("{cards}{} ({memory}, {compute})", self.name)
    }
}

/// Letters and digits alone: `RTX 4090`, `rtx-4090` and `GeForce RTX 4090` are one card.
fn fold(text: &str) -> String {
    text.to_lowercase()
        .replace("nvidia", "")
        .replace("geforce", "")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect()
}

/// Memory as `--max-memory` takes it: `8GB` or `6 GiB`.
pub fn memory(text: &str) -> Result<u64, String> {
    let word = text.to_lowercase().replace(' ', "");
    let amount = size(&word).and_then(|(amount, unit)| amount?.checked_mul(unit));
    amount.filter(|bytes| *bytes > 0).ok_or_else(|| "name whole GB or GiB, such as 8GB".to_owned())
}

/// An amount, where it is not out of bounds, and its unit; None where this is not a size. Drivers report 22.5 to 24 GiB for
/// cards that are sold with 24 GB, so a GB is taken as the smaller unit.
fn size(word: &str) -> Option<(Option<u64>, u64)> {
    let (digits, unit) =
        match (word.strip_suffix("gib"), word.strip_suffix("gb").or_else(|| word.strip_suffix('g'))) {
            (Some(digits), _) => (digits, 1 << 30),
            (None, Some(digits)) => (digits, 1_000_000_000),
            (None, None) => return None,
        };
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| (digits.parse().ok(), unit))
}

fn unknown(word: &str) -> String {
    let of_several: Vec<&str> =
        CARDS.iter().filter(|card| fold(card.word).starts_with(word)).map(|card| card.word).collect();
    if !word.is_empty() && !of_several.is_empty() {
        return format!("name one of {}", of_several.join(", "));
    }
    let near = did_you_mean(word, CARDS.iter().map(|card| card.word));
    let all: Vec<&str> = CARDS.iter().map(|card| card.word).collect();
    near.unwrap_or_else(|| format!("name the card's memory, such as 24GB, or one of {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cards_are_found_as_people_write_them() {
        for text in ["rtx4090", "RTX 4090", "4090", "rtx-4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090"]
        {
            let card = Card::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((card.memory_bytes >> 20, card.capability), (24_564, Some((8, 9))), "{text}");
        }
        assert!(!Card::parse("t4").unwrap().found().computes_bf16);
        assert!(Card::parse("h100").unwrap().found().computes_bf16);
        assert_eq!(Card::parse("2xH100").unwrap().found().devices, 2);
        assert_eq!(Card::parse("4 x 24GB").unwrap().found().devices, 4);
    }

    #[test]
    fn any_card_of_a_size_can_be_named() {
        assert_eq!(Card::parse("24GB").unwrap().memory_bytes, 24_000_000_000);
        assert_eq!(Card::parse("24 gib").unwrap().memory_bytes, 24 << 30);
        // No card that is sold with 24 GB has less.
        let sold = ["rtx4090", "a10", "l4", "rtx3090"].map(|word| Card::parse(word).unwrap().memory_bytes);
        assert!(sold.iter().all(|bytes| *bytes >= 24_000_000_000));
    }

    #[test]
    fn memory_is_an_amount_with_a_unit() {
        assert_eq!((memory("8GB"), memory("6 gib")), (Ok(8_000_000_000), Ok(6 << 30)));
        for text in ["8", "0GB", "rtx4090", "-1GB", "1.5GB", "99999999999GB", ""] {
            assert!(memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let error = |text: &str| Card::parse(text).unwrap_err();
        assert_eq!(error("a100"), "name one of a100-40gb, a100-80gb");
        assert!(error("rtx4091").contains("did you mean"), "{}", error("rtx4091"));
        assert!(error("mi300x").contains("such as 24GB"));
        for text in ["", "0GB", "9999GB", "99999999999999999999GB", "0xh100", "99xh100", "GB", "x", "é"] {
            assert!(Card::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_those_of_the_card_that_the_driver_names() {
        for (name, gigabytes) in [
            ("NVIDIA GeForce RTX 4090", 1008.0),
            ("NVIDIA H100 80GB HBM3", 3350.0),
            ("NVIDIA A100-SXM4-80GB", 2039.0),
            ("NVIDIA A100-SXM4-40GB", 1555.0),
            ("Tesla V100-SXM2-32GB", 900.0),
            ("NVIDIA GeForce RTX 5060 Ti", 448.0),
        ] {
            assert_eq!(limits(name).map(|it| it.gigabytes), Some(gigabytes), "{name}");
        }
        for other in [
            "NVIDIA GeForce RTX 4060 Laptop GPU",
            "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "NVIDIA H100 PCIe",
            "a card with 24GB",
            "",
        ] {
            assert_eq!(limits(other), None, "{other}");
        }
        for known in &CARDS {
            assert!(limits(known.name).is_some(), "{}", known.name);
        }
    }

    #[test]
    fn words_are_different_and_lead_to_their_own_card() {
        let words: BTreeSet<String> = CARDS.iter().map(|card| fold(card.word)).collect();
        assert_eq!(words.len(), CARDS.len());
        for known in &CARDS {
            assert_eq!(Card::parse(known.word).unwrap().name, known.name);
        }
    }
}
