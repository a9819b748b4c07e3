//! Programs that serve experts, and what each of them takes: advice and `docs/serve.md` come from this table.

use std::fmt::Write;

use crate::plan::AdapterKind::{self, Adalora, Dora, Ia3, Lokr, Lora, Prompt, Rslora};

/// A program with the adapters that it loads beside their base. Every program takes merged weights.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    /// Empty: it loads no adapters at all.
    pub kinds: &'static [AdapterKind],
    pub highest_rank: Option<u32>,
    /// The form of an adapter.
    pub form: &'static str,
    /// Several adapters on one base.
    pub several: &'static str,
    /// Which template and stop texts a request gets.
    pub template: &'static str,
}

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "transformers + peft",
        kinds: &[Lora, Rslora, Dora, Ia3, Lokr, Adalora, Prompt],
        highest_rank: None,
        form: "`final/` as it is",
        several: "yes",
        template: "`chat_template.jinja`; all of `generation_config.json`",
    },
    Program {
        name: "vLLM",
        kinds: &[Lora, Rslora],
        highest_rank: Some(512),
        form: "`final/` as it is; above rank 16 with `--max-lora-rank`",
        several: "yes, one in each request",
        template: "`chat_template.jinja`; `generation_config.json` without `do_sample` and `stop_strings`, with `--generation-config` for an adapter",
    },
    Program {
        name: "llama.cpp",
        kinds: &[Lora, Rslora],
        highest_rank: None,
        form: "GGUF",
        several: "yes, with a scale for each in every request",
        template: "that of the base's GGUF file, or `--chat-template-file`; temperature and stop texts in each request",
    },
    Program {
        name: "Ollama",
        kinds: &[Lora, Rslora],
        highest_rank: None,
        form: "GGUF",
        several: "one for each model",
        template: "`TEMPLATE` and `PARAMETER stop` of the Modelfile",
    },
    Program {
        name: "LM Studio",
        kinds: &[],
        highest_rank: None,
        form: "merged only, as GGUF",
        several: "no",
        template: "that of the GGUF file; temperature and stop texts in the model's settings",
    },
    Program {
        name: "MLX",
        kinds: &[Lora, Rslora, Dora],
        highest_rank: None,
        form: "`export --mlx`",
        several: "one for each model",
        template: "that of the base's folder, or `--chat-template`; temperature and stop texts in each request",
    },
];

impl Program {
    /// Whether it loads such an adapter.
    pub fn takes(&self, kind: AdapterKind, rank: Option<u32>) -> bool {
        let fits = |most| rank.is_none_or(|rank| rank <= most);
        self.kinds.contains(&kind) && self.highest_rank.is_none_or(fits)
    }
}

/// The programs that load adapters, and not this one.
pub fn refusing(kind: AdapterKind, rank: Option<u32>) -> Vec<&'static str> {
    let loading = PROGRAMS.iter().filter(|program| !program.kinds.is_empty());
    loading.filter(|program| !program.takes(kind, rank)).map(|program| program.name).collect()
}

/// The table of `docs/serve.md`.
pub fn table() -> String {
    let mut text = "| program | kinds of adapter | form | several on one base | template and ends of answers |\n|---|---|---|---|---|\n".to_owned();
    for it in PROGRAMS {
        let kinds: Vec<_> = it.kinds.iter().map(|kind| format!("`{kind}`")).collect();
        let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(" ") };
        let rank = it.highest_rank.map(|most| format!(", rank {most} at most")).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {kinds}{rank} | {} | {} | {} |",
            it.name, it.form, it.several, it.template
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_low_rank_matrices_are_loaded_everywhere() {
        assert!(refusing(Lora, Some(16)).is_empty());
        assert!(refusing(Rslora, Some(512)).is_empty());
        assert_eq!(refusing(Lora, Some(513)), ["vLLM"]);
        for kind in [Dora, Ia3, Lokr, Adalora, Prompt] {
            let mut expected = vec!["vLLM", "llama.cpp", "Ollama"];
            expected.extend((kind != Dora).then_some("MLX"));
            assert_eq!(refusing(kind, None), expected, "{kind}");
        }
    }
}
