//! The files that `init` writes: a small, complete, trainable expert, and a workflow for a repository of experts.

pub mod name;
mod preset;
pub mod workflow;

pub use preset::Preset;

use expert_contract::shell::quoted;

use crate::own_rows;

/// What is made from the expert's files, and can be made again.
pub const IGNORED: &str = "/weights/\n/datasets_optimized/\n";

/// The lock has digests of data and scorer by their bytes.
pub const ATTRIBUTES: &str = "# expert.lock compares bytes: git must not convert line ends here.\n* -text\n";

/// What the manifest says of rows that are made from a schema. Lengths are those of the longest, 0 where they are not known.
#[derive(Default)]
pub struct SchemaRows {
    /// A file that answers fit.
    pub grammar: Option<&'static str>,
    pub answer_tokens: u64,
    pub row_tokens: u64,
}

/// Of answers that are queries, at least, and of those that a JSON Schema's rows have.
const QUERY_TOKENS: u64 = 112;
const ANSWER_TOKENS: u64 = 224;
const STEP: u64 = 16;

/// The manifest's text in a readable layout, with the preset's parts unchanged except for what longer rows need.
pub fn manifest(name: &str, preset: Preset, rows: &SchemaRows) -> serde_json::Result<String> {
    let text = match preset {
        Preset::Sql => include_str!("manifest-sql.json"),
        Preset::Json => include_str!("manifest-json.json"),
        _ => include_str!("manifest.json"),
    };
    let grammar = rows.grammar.map_or_else(String::new, |file| format!(", \"grammar_file\": \"{file}\""));
    let least = if preset == Preset::Sql { QUERY_TOKENS } else { ANSWER_TOKENS };
    let answer = (rows.answer_tokens * 5 / 4).next_multiple_of(STEP).max(least);
    let text = filled(text, name, preset)?
        .replace("{{grammar}}", &grammar)
        .replace("{{max_new_tokens}}", &answer.to_string());
    Ok(own_rows::long_enough(text, preset, rows.row_tokens.next_multiple_of(STEP)))
}

/// A manifest's text with the preset's parts and the name.
pub fn filled(text: &str, name: &str, preset: Preset) -> serde_json::Result<String> {
    let parts = preset.parts()?;
    Ok(text
        .replace("{{base_models}}", parts.base_models)
        .replace("{{config}}", parts.config)
        .replace("{{name}}", name))
}

/// Beside the manifest, which names it: editors complete and check keys by it.
pub const SCHEMA: &str = "manifest.schema.json";

pub fn schema() -> serde_json::Result<String> {
    serde_json::to_string_pretty(&expert_contract::schema::manifest()).map(|text| text + "\n")
}

/// Of an expert for one schema, whose rows can be made again.
pub fn schema_readme(preset: Preset, name: &str, path: &str, rows: u32, seed: u32) -> String {
    let text =
        if preset == Preset::Json { include_str!("README-json.md") } else { include_str!("README-sql.md") };
    in_folder(text, path)
        .replace("{{name}}", name)
        .replace("{{rows}}", &rows.to_string())
        .replace("{{seed}}", &seed.to_string())
}

pub fn readme(name: &str, path: &str) -> String {
    in_folder(include_str!("README.md"), path).replace("{{name}}", name)
}

/// Of an expert in a user's own rows, which are scored where some of them are test rows: texts without answers have none.
pub fn readme_of_rows(name: &str, path: &str, is_scored: bool) -> String {
    let (kept, other) = if is_scored { (SCORED, UNSCORED) } else { (UNSCORED, SCORED) };
    let lines = include_str!("README-data.md").lines().filter(|line| !line.starts_with(other));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(kept).unwrap_or(line)).collect();
    in_folder(&(lines.join("\n") + "\n"), path).replace("{{name}}", name)
}

/// Begin lines of a template that only one of both cases has.
const SCORED: &str = "{{scored}}";
const UNSCORED: &str = "{{unscored}}";

/// With the expert's folder, and what is in it, as a shell takes each for one word.
fn in_folder(text: &str, path: &str) -> String {
    ["/datasets", "/schema.sql", "/schema.json", ""].into_iter().fold(text.to_owned(), |text, file| {
        text.replace(&format!("{{{{path}}}}{file}"), &quoted(&format!("{path}{file}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_schema_are_made_again_where_the_other_commands_run() {
        let readme = |preset, path| schema_readme(preset, "sp", path, 9, 1);
        let sql = readme(Preset::Sql, "experts/sp");
        assert!(sql.contains(" --ddl experts/sp/schema.sql --words "), "{sql}");
        assert!(sql.contains(" --output experts/sp/datasets\n"), "{sql}");
        let json = readme(Preset::Json, "My Folder/sp");
        assert!(json.contains(" --schema 'My Folder/sp/schema.json' --rows 9 --seed 1 "), "{json}");
        assert!(json.contains(" --output 'My Folder/sp/datasets'\n"), "{json}");
        assert!(!json.contains("{{") && !sql.contains("{{"));
    }

    #[test]
    fn lengths_are_those_of_the_rows_of_a_schema() {
        let made = |preset, answer_tokens, row_tokens| {
            let rows = SchemaRows { grammar: None, answer_tokens, row_tokens };
            let text = manifest("x", preset, &rows).unwrap();
            let made: serde_json::Value = serde_json::from_str(&text).unwrap();
            let training = &made["training"];
            [&training["decoding"]["max_new_tokens"], &training["config"]["max_seq_length"]]
                .map(|it| it.as_u64().unwrap())
        };
        assert_eq!(made(Preset::Json, 0, 0), [224, 512]);
        assert_eq!(made(Preset::Json, 60, 300), [224, 512]);
        assert_eq!(made(Preset::Json, 241, 569), [304, 576]);
        assert_eq!(made(Preset::Sql, 0, 0), [112, 512]);
        assert_eq!(made(Preset::Sql, 62, 302), [112, 512]);
        assert_eq!(made(Preset::Sql, 130, 620), [176, 624]);
    }

    #[test]
    fn rows_of_ones_own_are_scored_where_some_are_test_rows() {
        let [scored, unscored] = [true, false].map(|is_scored| readme_of_rows("sp", "experts/sp", is_scored));
        assert!(scored.contains("\n    expert-cli train -m experts/sp --evaluate "), "{scored}");
        assert!(scored.ends_with("new rows.\nThe manifest's scorer was chosen by the answers: check that it judges what you care about.\n"));
        assert!(unscored.contains("\n    expert-cli train -m experts/sp     "), "{unscored}");
        assert!(unscored.ends_with("\n\n`datasets/` has your texts in two files. Texts that copy each other are in one file, so the validation loss is about new ones.\n"));
        assert!(!scored.contains("{{") && !unscored.contains("{{"));
        assert_eq!(scored.lines().count(), unscored.lines().count() + 1);
    }
}
