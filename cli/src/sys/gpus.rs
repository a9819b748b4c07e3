//! The driver's GPUs, through NVML (loaded at run time), as torch will see them in the worker.
//!
//! NVML counts cards by PCI bus, as `nvidia-smi` does; CUDA puts the fastest first unless `CUDA_DEVICE_ORDER` says otherwise.
//! The worker counts them as this program does: see [`for_worker`].

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

use expert_contract::plan::{Device, DeviceKind};
use expert_contract::resolve::{Note, gibibytes};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;

use super::env;
use super::host::Found;

const BY_BUS: &str = "PCI_BUS_ID";
const BY_SPEED: &str = "FASTEST_FIRST";
/// The first compute capability whose tensor cores compute in bf16.
const BF16: u32 = 8;
/// What others may hold of a card before that is said: a display takes less.
const NOTICEABLE: u64 = 1 << 30;

/// What NVML says of this machine, and what the environment leaves of it.
#[derive(Debug, Default)]
pub struct Gpus {
    /// By PCI bus.
    cards: Vec<Card>,
    /// Positions in `cards`, in the order of torch's numbers.
    order: Vec<usize>,
    /// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, where they are set.
    named: Option<String>,
    asked_order: Option<String>,
    /// Why CUDA_VISIBLE_DEVICES selects fewer than it names.
    stopped: Option<Stopped>,
    /// Why a GPU that the driver has cannot be used.
    refusal: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Card {
    name: String,
    uuid: String,
    /// Of a card with MIG, the ids of its slices. CUDA uses the first one that is visible.
    slices: Vec<Slice>,
    total: u64,
    free: u64,
    /// Its compute capability.
    capability: Option<(u32, u32)>,
    /// Cores times clock.
    speed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Slice {
    uuid: String,
    name: String,
    total: u64,
    free: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stopped {
    Empty,
    /// This word names no card; CUDA ignores it and what follows.
    At(String),
    /// CUDA shows nothing where a card is named twice.
    Twice(String),
}

impl Gpus {
    /// Asked once: what this program's own workers hold of a card later counts as free.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Gpus> = OnceLock::new();
        HERE.get_or_init(|| {
            let nvml = match Nvml::init() {
                Ok(nvml) => nvml,
                Err(error) => return Self { refusal: refusal(&error), ..Self::default() },
            };
            let (mut cards, mut refused) = (Vec::new(), None);
            for number in 0..nvml.device_count().unwrap_or(0) {
                match card(&nvml, number) {
                    Ok(card) => cards.push(card),
                    Err(error) => refused = Some(format!("NVML does not describe GPU {number}: {error}")),
                }
            }
            let text = |value: OsString| value.to_string_lossy().into_owned();
            // Empty is not unset: it hides all.
            let named = std::env::var_os(env::CUDA_VISIBLE_DEVICES.name).map(text);
            Self { refusal: refused, ..Self::of(cards, named, env::CUDA_DEVICE_ORDER.get().map(text)) }
        })
    }

    fn of(mut cards: Vec<Card>, named: Option<String>, asked_order: Option<String>) -> Self {
        let mut by_order: Vec<usize> = (0..cards.len()).collect();
        if asked_order.as_deref() == Some(BY_SPEED) {
            by_order.sort_by_key(|at| std::cmp::Reverse(cards[*at].speed));
        }
        let (order, stopped) = match &named {
            None => (by_order, None),
            Some(named) => chosen(named, &mut cards, &by_order),
        };
        Self { cards, order, named, asked_order, stopped, refusal: None }
    }

    /// As torch counts them.
    pub fn found(&self) -> Vec<Found> {
        let all = self.order.len();
        let device = |(index, at): (usize, &usize)| {
            let card = &self.cards[*at];
            let (name, free) =
                card.slices.first().map_or((&card.name, card.free), |slice| (&slice.name, slice.free));
            Found {
                device: Device {
                    kind: DeviceKind::Cuda,
                    index: index as u32,
                    name: name.clone(),
                    memory_bytes: Some(free),
                },
                // Processes that train together take this one and those that follow.
                devices: (all - index) as u32,
                computes_bf16: card.capability.is_some_and(|(major, _)| major >= BF16),
            }
        };
        self.order.iter().enumerate().map(device).collect()
    }

    /// The memory of the card with this number, of which others may hold a part.
    pub fn total(&self, index: u32) -> Option<u64> {
        let card = &self.cards[*self.order.get(index as usize)?];
        Some(card.slices.first().map_or(card.total, |slice| slice.total))
    }

    /// The compute capability of the card with this number.
    pub fn capability(&self, index: u32) -> Option<(u32, u32)> {
        self.cards[*self.order.get(index as usize)?].capability
    }

    /// Why a GPU that the driver has cannot be used.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Why there is none although the driver has one.
    pub fn hidden(&self) -> Option<String> {
        if self.cards.is_empty() || !self.order.is_empty() {
            return None;
        }
        let count = self.cards.len();
        Some(match self.stopped.as_ref()? {
            Stopped::Empty => {
                format!("CUDA_VISIBLE_DEVICES is empty, which hides this machine's {count} GPUs")
            }
            Stopped::At(word) => {
                format!(
                    "CUDA_VISIBLE_DEVICES begins with {word}, which is none of this machine's {count} GPUs"
                )
            }
            Stopped::Twice(word) => {
                format!("CUDA_VISIBLE_DEVICES names {word} twice, which hides all of this machine's GPUs")
            }
        })
    }

    /// What the environment and unlike cards mean for a run on the device of this number; None: it runs without one.
    pub fn notes(&self, index: Option<u32>) -> Vec<Note> {
        let mut notes = Vec::new();
        if let Some(message) = self.hidden() {
            let hint = format!("unset CUDA_VISIBLE_DEVICES, or name one of {}", self.listed(None));
            notes.push(Note { code: "gpus-hidden", message, hint });
        }
        if let Some(refusal) = &self.refusal {
            let used = if index.is_some() { "another GPU" } else { "the CPU" };
            let message = format!("a GPU cannot be used, and this run uses {used}: {refusal}");
            let hint = "`expert-cli doctor` says what to do".to_owned();
            notes.push(Note { code: "gpu-refused", message, hint });
        }
        let Some(&at) = index.and_then(|index| self.order.get(index as usize)) else { return notes };
        notes.extend(self.order_note());
        notes.extend(self.choice_note(at));
        if let Some((index, total)) = index.and_then(|index| Some((index, self.total(index)?))) {
            let free = self.found()[index as usize].device.memory_bytes.unwrap_or(total);
            if total.saturating_sub(free) > NOTICEABLE {
                notes.push(Note {
                    code: "gpu-memory-in-use",
                    message: format!(
                        "other programs hold {} of this GPU's {}: the plan is made for the {} that are free",
                        gibibytes(total - free),
                        gibibytes(total),
                        gibibytes(free)
                    ),
                    hint:
                        "`nvidia-smi` shows them; end them, or choose another GPU with CUDA_VISIBLE_DEVICES"
                            .to_owned(),
                });
            }
        }
        notes
    }

    fn choice_note(&self, at: usize) -> Option<Note> {
        let card = &self.cards[at];
        let used = format!("GPU {at} by PCI bus, {}", described(card));
        if let Some(stopped) = &self.stopped {
            let word = match stopped {
                Stopped::At(word) | Stopped::Twice(word) => word.as_str(),
                Stopped::Empty => "",
            };
            return Some(Note {
                code: "gpus-ignored",
                message: format!(
                    "CUDA ignores `{word}` in CUDA_VISIBLE_DEVICES, which names none of the GPUs here, and what follows it: \
                     this run uses {used}"
                ),
                hint: format!("name some of {}", self.listed(None)),
            });
        }
        if self.named.is_some() && self.cards.len() > 1 {
            return Some(Note {
                code: "gpus-chosen",
                message: format!("CUDA_VISIBLE_DEVICES chooses {used}"),
                hint: format!("the other GPUs here: {}", self.listed(Some(at))),
            });
        }
        self.are_unlike().then(|| Note {
            code: "gpus-unlike",
            message: format!("this run uses {used}; this machine has other GPUs"),
            hint: format!("CUDA_VISIBLE_DEVICES chooses another: {}", self.listed(Some(at))),
        })
    }

    fn order_note(&self) -> Option<Note> {
        let message = match self.asked_order.as_deref()? {
            BY_BUS => return None,
            BY_SPEED if !self.are_unlike() => return None,
            BY_SPEED => {
                "CUDA_DEVICE_ORDER is FASTEST_FIRST: GPUs are numbered by their cores and clock".to_owned()
            }
            other => format!("CUDA_DEVICE_ORDER={other} is not valid: GPUs are numbered by PCI bus"),
        };
        let hint = "PCI_BUS_ID is the default here, and numbers them as `nvidia-smi` does".to_owned();
        Some(Note { code: "gpu-order", message, hint })
    }

    fn are_unlike(&self) -> bool {
        self.cards.iter().any(|card| card.name != self.cards[0].name || card.total != self.cards[0].total)
    }

    fn listed(&self, without: Option<usize>) -> String {
        let one = |(at, card): (usize, &Card)| format!("{at} ({})", described(card));
        let all = self.cards.iter().enumerate().filter(|(at, _)| Some(*at) != without).map(one);
        all.collect::<Vec<_>>().join(", ")
    }

    /// The CUDA_VISIBLE_DEVICES by which a program that counts by PCI bus sees the same cards; None where it does anyway.
    fn by_bus(&self) -> Option<String> {
        // Ids mean the same in any order.
        let by_id = |named: &String| named.trim_start().starts_with(|it: char| it.is_ascii_alphabetic());
        if self.asked_order.as_deref() != Some(BY_SPEED)
            || self.order.is_empty()
            || self.named.as_ref().is_some_and(by_id)
        {
            return None;
        }
        Some(self.order.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
    }
}

/// The worker counts cards by PCI bus, whatever CUDA would do by itself. Where the user wants the fastest first, their
/// numbers are put into that order.
pub fn for_worker(command: &mut Command) {
    // NVML is not asked where nothing depends on it.
    if env::CUDA_DEVICE_ORDER.get().is_some()
        && let Some(numbers) = Gpus::here().by_bus()
    {
        command.env(env::CUDA_VISIBLE_DEVICES.name, numbers);
    }
    command.env(env::CUDA_DEVICE_ORDER.name, BY_BUS);
}

/// Whether there is no NVIDIA driver here, which most machines do without.
pub fn is_library_missing(error: &NvmlError) -> bool {
    matches!(error, NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound)
}

fn refusal(error: &NvmlError) -> Option<String> {
    // A container's image may have the driver's library where the machine has no GPU.
    let none = is_library_missing(error) || matches!(error, NvmlError::DriverNotLoaded);
    (!none).then(|| format!("the NVIDIA driver's library (NVML) refuses: {error}"))
}

fn described(card: &Card) -> String {
    format!("{}, {}", card.name, gibibytes(card.total))
}

/// CUDA_VISIBLE_DEVICES as the driver and torch read it: numbers, or ids of cards, or ids of MIG slices, up to the first that
/// names none. `order`: what the numbers mean.
fn chosen(named: &str, cards: &mut [Card], order: &[usize]) -> (Vec<usize>, Option<Stopped>) {
    if named.trim().is_empty() {
        return (Vec::new(), Some(Stopped::Empty));
    }
    let mut found = Vec::new();
    for word in named.split(',') {
        let word = word.trim();
        let slice = cards.iter().enumerate().find_map(|(at, card)| {
            let own = |slice: &Slice| word.starts_with("MIG-") && slice.uuid == word;
            card.slices.iter().position(own).map(|slice| (at, slice))
        });
        let at = match slice {
            Some((at, slice)) => {
                cards[at].slices.swap(0, slice);
                Some(at)
            }
            None if word.starts_with("GPU-") => {
                // The beginning of an id is enough where it is the only one.
                let mut fit = (0..cards.len()).filter(|at| cards[*at].uuid.starts_with(word));
                fit.next().filter(|_| fit.next().is_none())
            }
            None => leading_number(word).and_then(|number| order.get(number).copied()),
        };
        let Some(at) = at else { return (found, Some(Stopped::At(word.to_owned()))) };
        if found.contains(&at) {
            return (Vec::new(), Some(Stopped::Twice(word.to_owned())));
        }
        found.push(at);
    }
    (found, None)
}

/// As C's `strtoul` reads it: `1gpu` is 1.
fn leading_number(word: &str) -> Option<usize> {
    let digits = word.strip_prefix('+').unwrap_or(word);
    let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn card(nvml: &Nvml, number: u32) -> Result<Card, NvmlError> {
    let gpu = nvml.device_by_index(number)?;
    let memory = gpu.memory_info()?;
    let name = |gpu: &nvml_wrapper::Device<'_>| gpu.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned());
    let mut slices = Vec::new();
    if gpu.mig_mode().is_ok_and(|mode| mode.current == 1) {
        let found =
            (0..gpu.mig_device_count().unwrap_or(0)).filter_map(|at| gpu.mig_device_by_index(at).ok());
        slices.extend(found.filter_map(|slice| {
            let memory = slice.memory_info().ok()?;
            let uuid = slice.uuid().unwrap_or_default();
            Some(Slice { uuid, name: name(&slice), total: memory.total, free: memory.free })
        }));
    }
    let speed = || Some(u64::from(gpu.num_cores().ok()?) * u64::from(gpu.max_clock_info(Clock::SM).ok()?));
    Ok(Card {
        name: name(&gpu),
        uuid: gpu.uuid().unwrap_or_default(),
        slices,
        total: memory.total,
        free: memory.free,
        capability: gpu.cuda_compute_capability().ok().map(|it| (it.major as u32, it.minor as u32)),
        speed: speed().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<Card> {
        let card = |name: &str, uuid: &str, gib: u64, speed| Card {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            total: gib << 30,
            free: gib << 30,
            speed,
            ..Card::default()
        };
        let slice = |uuid: &str, gib: u64| Slice {
            uuid: uuid.to_owned(),
            name: "MIG".to_owned(),
            total: gib << 30,
            free: gib << 30,
        };
        let mut cards = vec![
            card("small", "GPU-aa11", 8, 1),
            card("large", "GPU-aa22", 24, 9),
            card("middle", "GPU-bb33", 16, 5),
            card("sliced", "GPU-cc44", 80, 20),
        ];
        cards[3].slices = vec![slice("MIG-1", 10), slice("MIG-2", 20)];
        cards
    }

    fn seen(named: Option<&str>, order: Option<&str>) -> Gpus {
        Gpus::of(machine(), named.map(str::to_owned), order.map(str::to_owned))
    }

    #[test]
    fn gpus_are_numbered_as_torch_sees_them() {
        let visible = |named: &str| seen(Some(named), None).order;
        assert_eq!(seen(None, None).order, [0, 1, 2, 3]);
        assert_eq!(visible("2,0"), [2, 0]);
        assert_eq!(visible(" 2 , 0 "), [2, 0]);
        assert_eq!(visible("1,-1,2"), [1]);
        assert_eq!(visible("1,9,2"), [1]);
        assert_eq!(visible("1gpu,0"), [1, 0]);
        assert_eq!(visible("GPU-bb,GPU-aa1"), [2, 0]);
        // Two cards begin so.
        assert!(visible("GPU-aa").is_empty());
        for nothing in ["-1", "", " ", "9", "none", "GPU-dd", "MIG-9", "1,1", "GPU-bb,GPU-bb33"] {
            assert!(visible(nothing).is_empty(), "{nothing}");
            assert!(seen(Some(nothing), None).hidden().is_some(), "{nothing}");
        }
    }

    #[test]
    fn a_slice_has_its_own_memory() {
        let memory = |named| seen(named, None).found().pop().unwrap().device.memory_bytes;
        assert_eq!(memory(Some("MIG-2")), Some(20 << 30));
        assert_eq!(memory(Some("MIG-1")), Some(10 << 30));
        assert_eq!(memory(None), Some(10 << 30));
    }

    #[test]
    fn the_fastest_comes_first_where_that_is_asked_for() {
        assert_eq!(seen(None, Some(BY_SPEED)).order, [3, 1, 2, 0]);
        assert_eq!(seen(Some("1,0"), Some(BY_SPEED)).order, [1, 3]);
        assert_eq!(seen(Some("GPU-aa11"), Some(BY_SPEED)).order, [0]);
        assert_eq!(seen(Some("1"), Some(BY_BUS)).order, [1]);
        let by_bus = |named, order| seen(named, order).by_bus();
        assert_eq!(by_bus(None, Some(BY_SPEED)).as_deref(), Some("3,1,2,0"));
        assert_eq!(by_bus(Some("1,0"), Some(BY_SPEED)).as_deref(), Some("1,3"));
        assert_eq!(by_bus(Some("GPU-aa11"), Some(BY_SPEED)), None);
        assert_eq!(by_bus(Some("1,0"), Some(BY_BUS)), None);
    }

    #[test]
    fn what_others_hold_is_not_planned_with() {
        let mut cards = machine();
        cards[1].free = 10 << 30;
        let gpus = Gpus::of(cards, Some("1".to_owned()), None);
        assert_eq!(gpus.found()[0].device.memory_bytes, Some(10 << 30));
        assert_eq!(gpus.total(0), Some(24 << 30));
        let codes: Vec<_> = gpus.notes(Some(0)).iter().map(|note| note.code).collect();
        assert!(codes.contains(&"gpu-memory-in-use"), "{codes:?}");
    }
}
