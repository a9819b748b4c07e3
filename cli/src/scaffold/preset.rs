//! Settings for common machines and tasks: fragments of a manifest, with the reasons in `_why` comments.

use clap::ValueEnum;
use expert_contract::manifest::{PRESET, Set};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

type Config = serde_json::Map<String, Value>;

/// A folder of the expert, not a setting of its training.
const CACHE: &str = "pretokenized_cache";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum Preset {
    Test,
    #[default]
    Cpu,
    Production,
    #[value(name = "consumer-24gb")]
    Consumer24Gb,
    #[value(name = "datacenter-80gb")]
    Datacenter80Gb,
    #[value(name = "context-32k-small")]
    Context32kSmall,
    #[value(name = "context-32k-medium")]
    Context32kMedium,
    #[value(name = "context-32k-large")]
    Context32kLarge,
    Sql,
    Json,
}

/// The pieces of a preset's file, with the line breaks that they have there.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(rename = "_for")]
    situation: &'a str,
    #[serde(borrow)]
    base_models: &'a RawValue,
    #[serde(borrow)]
    training: Training<'a>,
}

#[derive(Deserialize)]
struct Training<'a> {
    #[serde(borrow)]
    config: &'a RawValue,
}

pub struct Parts {
    /// Completes "for ...".
    pub situation: &'static str,
    pub base_models: &'static str,
    pub config: &'static str,
}

impl Preset {
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub fn parts(self) -> serde_json::Result<Parts> {
        let file: File<'static> = serde_json::from_str(self.text())?;
        Ok(Parts {
            situation: file.situation,
            base_models: file.base_models.get(),
            config: file.training.config.get(),
        })
    }

    /// The training settings as changes of a manifest. Which base, and where the token cache is, stays the manifest's.
    pub fn sets(self) -> Vec<Set> {
        let config = self.parts().ok().and_then(|parts| serde_json::from_str::<Config>(parts.config).ok());
        let option = format!("{PRESET} {}", self.name());
        let given = |key: &String| !key.starts_with('_') && key != CACHE;
        let set = |(key, value): (String, Value)| {
            Set::flag(option.clone(), format!("training.config.{key}"), value.to_string())
        };
        config.unwrap_or_default().into_iter().filter(|(key, _)| given(key)).map(set).collect()
    }

    fn text(self) -> &'static str {
        match self {
            Self::Test => include_str!("presets/test.json"),
            Self::Cpu => include_str!("presets/cpu.json"),
            Self::Production => include_str!("presets/production.json"),
            Self::Consumer24Gb => include_str!("presets/consumer-24gb.json"),
            Self::Datacenter80Gb => include_str!("presets/datacenter-80gb.json"),
            Self::Context32kSmall => include_str!("presets/context-32k-small.json"),
            Self::Context32kMedium => include_str!("presets/context-32k-medium.json"),
            Self::Context32kLarge => include_str!("presets/context-32k-large.json"),
            Self::Json => include_str!("presets/json.json"),
            Self::Sql => include_str!("presets/sql.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expert_contract::diagnostic::{Diagnostic, Severity};
    use expert_contract::manifest::Options;
    use expert_contract::read::from_bytes;

    use super::*;

    #[test]
    fn a_preset_changes_settings_and_neither_base_nor_folders() {
        for preset in Preset::value_variants() {
            let sets = preset.sets();
            let keys: Vec<_> =
                sets.iter().filter_map(|set| set.path.strip_prefix("training.config.")).collect();
            assert_eq!(keys.len(), sets.len());
            assert!(keys.contains(&"learning_rate") && keys.contains(&"rank"), "{preset:?}");
            assert!(!keys.iter().any(|key| key.starts_with('_') || *key == CACHE), "{preset:?}");
            assert!(sets.iter().all(|set| set.option == format!("--preset {}", preset.name())));
        }
    }

    #[test]
    fn every_preset_has_a_situation_and_its_parts() {
        for preset in Preset::value_variants() {
            let parts = preset.parts().unwrap();
            assert!(!parts.situation.is_empty() && parts.config.contains("\"rank\""), "{preset:?}");
        }
    }

    #[test]
    fn the_guide_has_every_preset_with_its_length_and_rank() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/first-expert.md");
        let page = std::fs::read_to_string(page).unwrap();
        for preset in Preset::value_variants() {
            let config: Config = serde_json::from_str(preset.parts().unwrap().config).unwrap();
            let name = format!("| `{}`", preset.name());
            let row = page.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
            let cells: Vec<String> = row.split('|').map(|cell| cell.trim().replace(',', "")).collect();
            let number = |key: &str| config[key].to_string();
            let length = match config.get("max_steps") {
                Some(steps) => format!("{steps} steps"),
                None => format!("{} epochs", config["epochs"]),
            };
            let expected = [number("max_seq_length"), number("rank"), length, number("batch_size")];
            assert_eq!(cells.get(4..8), Some(&expected[..]), "{name}");
        }
    }

    /// The manifests that `init` makes with each preset, and those of the experts of this repository.
    fn manifests() -> Vec<(String, String)> {
        let made = Preset::value_variants().iter().map(|preset| {
            (
                format!("init --preset {}", preset.name()),
                crate::scaffold::manifest("x", *preset, &crate::scaffold::SchemaRows::default()).unwrap(),
            )
        });
        let experts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experts");
        let shipped = ["json", "neo4j", "sql", "typescript"].map(|name| {
            let file = experts.join(format!("expert-{name}/manifest.json"));
            (format!("expert-{name}"), std::fs::read_to_string(file).unwrap())
        });
        made.chain(shipped).collect()
    }

    #[test]
    fn every_preset_can_be_laid_over_every_manifest() {
        for (name, text) in manifests() {
            for preset in Preset::value_variants() {
                let options = Options { sets: preset.sets(), ..Options::default() };
                let loaded = from_bytes(text.clone().into(), Path::new("/nowhere/x/manifest.json"), &options);
                let of_settings =
                    |found: &&Diagnostic| found.span.is_argument() || found.severity == Severity::Error;
                let found: Vec<_> =
                    loaded.diagnostics.iter().filter(of_settings).map(|it| &it.message).collect();
                assert!(loaded.ok() && found.is_empty(), "{preset:?} over {name}: {found:?}");
                let parts = serde_json::from_str::<Config>(preset.parts().unwrap().config).unwrap();
                let manifest = loaded.manifest.unwrap();
                for base in manifest.all_effective() {
                    let steps = parts.get("max_steps").and_then(Value::as_u64);
                    assert_eq!(base.config.max_steps.0, steps, "{preset:?} over {name}");
                }
            }
        }
    }
}
