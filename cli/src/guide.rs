//! Tests the guide's pages, the README files and what `init` writes: this program accepts each command, and each link
//! has a target.

use std::path::{Path, PathBuf};

use crate::cli::command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = docs.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| repository().join(name)));
    pages
}

/// Pages whose links are for another place than theirs.
fn other_pages() -> Vec<PathBuf> {
    let experts = std::fs::read_dir(repository().join("experts")).unwrap();
    let experts = experts.map(|entry| entry.unwrap().path().join("README.md")).filter(|page| page.is_file());
    let written = ["README.md", "README-sql.md", "README-json.md"];
    experts.chain(written.map(|name| repository().join("cli/src/scaffold").join(name))).collect()
}

const PROGRAM: &str = "expert-cli ";

/// The commands of fenced and indented code, without their comments; one per line, also behind `srun` or a pipe.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced || line.starts_with("    ") {
            let begins = |at: &usize| *at == 0 || line[..*at].ends_with(' ');
            let place = line.match_indices(PROGRAM).map(|(at, _)| at).find(begins);
            found.extend(place.map(|at| words(&line[at + PROGRAM.len()..])));
        }
    }
    found
}

/// As a shell splits them; no page has escapes or variables.
fn words(line: &str) -> Vec<String> {
    let mut words = vec!["expert-cli".to_owned()];
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => (quote, begun) = (Some(letter), true),
            (None, '#' | '>' | '|') if !begun => break,
            (None, ' ') if begun => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (None, ' ') => {}
            _ => {
                word.push(letter);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[test]
fn every_command_of_the_guide_is_one_that_is_taken() {
    let mut seen = 0;
    for page in pages().into_iter().chain(other_pages()) {
        // `init` fills these in, as numbers that are allowed.
        let text = std::fs::read_to_string(&page).unwrap().replace("{{rows}}", "90").replace("{{seed}}", "9");
        let found = commands(&text);
        assert!(found.len() >= in_fences(&text), "{}: a command was not found", page.display());
        for words in found {
            let taken = command().try_get_matches_from(&words);
            assert!(taken.is_ok(), "{}: {}\n{}", page.display(), words.join(" "), taken.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen > 130, "only {seen} commands were found");
}

/// How many lines of fenced code name the program, counted another way than `commands` finds them.
fn in_fences(page: &str) -> usize {
    let fences = page.split("```").skip(1).step_by(2);
    fences.flat_map(str::lines).filter(|line| line.contains(PROGRAM)).count()
}

#[test]
fn every_link_of_the_guide_leads_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let before = seen;
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(target.exists(), "{} links to {link}", page.display());
            assert!(
                heading.is_empty() || has_heading(&target, heading),
                "{} links to {link}",
                page.display()
            );
            seen += 1;
        }
        let within = text.matches("](").count() - text.matches("](http").count();
        assert_eq!(seen - before, within, "{}: a link was not followed", page.display());
    }
    assert!(seen > 80, "only {seen} links were found");
}

fn has_heading(page: &Path, wanted: &str) -> bool {
    let slug = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title.replace(' ', "-").replace(|c: char| !(c.is_alphanumeric() || c == '-'), "")
    };
    std::fs::read_to_string(page).unwrap().lines().any(|line| line.starts_with('#') && slug(line) == wanted)
}

#[test]
fn commands_are_found_wherever_they_are_in_code() {
    let page = "expert-cli prose\n    expert-cli a\n```sh\nexpert-cli b\n$ expert-cli c\ncat x | expert-cli d - | less\nmy-expert-cli e\n```\n";
    let found: Vec<_> = commands(page).into_iter().map(|words| words[1..].join(" ")).collect();
    assert_eq!(found, ["a", "b", "c", "d -"]);
}

#[test]
fn words_are_split_as_a_shell_does() {
    assert_eq!(words("a -p \"x y\" --set 'k=#1'  # why"), ["expert-cli", "a", "-p", "x y", "--set", "k=#1"]);
    assert_eq!(words("a b > c"), ["expert-cli", "a", "b"]);
    assert_eq!(words("a b | c"), ["expert-cli", "a", "b"]);
    assert_eq!(words("a '' b"), ["expert-cli", "a", "", "b"]);
}
