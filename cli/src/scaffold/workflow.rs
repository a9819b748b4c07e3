//! The workflow that trains each changed expert. One text for this repository and for those that `init --ci` writes it into.

/// The repository and commit of expert-cli for the workflow's jobs.
pub struct Tool<'a> {
    pub repository: &'a str,
    pub commit: &'a str,
}

/// The folder of expert-cli's checkout in another repository's jobs.
const FOLDER: &str = ".expert-cli";

pub const PATH: &str = ".github/workflows/experts.yml";

/// Without a tool, for expert-cli's repository.
pub fn text(tool: Option<&Tool<'_>>, experts: &str) -> String {
    let (prefix, directory, checkout) = match tool {
        None => (String::new(), String::new(), String::new()),
        Some(tool) => (format!("{FOLDER}/"), format!("-C {FOLDER} "), checkout(tool)),
    };
    include_str!("workflow.yml")
        .replace("{{checkout}}", &checkout)
        .replace("{{tool}}", &prefix)
        .replace("{{directory}}", &directory)
        .replace("{{experts}}", experts)
}

fn checkout(tool: &Tool<'_>) -> String {
    let Tool { repository, commit } = tool;
    // The same action as the step before it, by the same commit.
    let action = include_str!("workflow.yml")
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("- uses: actions/checkout"))
        .unwrap_or_default();
    format!(
        "      - uses: actions/checkout{action}\n        with:\n          repository: {repository}\n          \
         ref: {commit}\n          path: {FOLDER}\n          persist-credentials: false\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repositorys_own_workflow_is_the_same_text() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../.github/workflows/experts.yml");
        let text = text(None, "experts");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(file, &text).unwrap();
        }
        let checked_in = std::fs::read_to_string(file).unwrap().replace("\r\n", "\n");
        assert!(checked_in == text, "{file} is out of date; run with UPDATE=1 and review the difference");
    }

    #[test]
    fn another_repository_checks_the_tool_out_beside_its_experts() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let text = text(Some(&Tool { repository: "someone/tool", commit }), "shelf");
        assert!(
            ["tool", "checkout", "directory", "experts"]
                .iter()
                .all(|it| !text.contains(&format!("{{{{{it}}}}}")))
        );
        assert!(text.contains("make -C .expert-cli runtime"));
        assert_eq!(text.matches("repository: someone/tool").count(), 3);
        assert_eq!(text.matches(commit).count(), 3);
        assert!(text.contains("run: .expert-cli/scripts/ci/matrix shelf \"$SINCE\""));
        assert_eq!(text.matches("            .expert-cli/target\n").count(), 2, "what is kept of the tool");
    }

    #[test]
    fn every_action_is_pinned_by_commit_and_forgets_credentials() {
        let text = text(None, "experts");
        let pinned = |line: &&str| {
            line.split('@').nth(1).and_then(|rest| rest.split(' ').next()).is_some_and(|it| it.len() == 40)
        };
        let uses: Vec<&str> = text.lines().filter(|line| line.contains("uses: ")).collect();
        assert!(uses.len() > 5 && uses.iter().all(pinned), "{uses:?}");
        assert_eq!(
            text.matches("actions/checkout@").count(),
            text.matches("persist-credentials: false").count()
        );
    }
}
