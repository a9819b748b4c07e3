//! `search`: finds better training settings by successive halving.

use std::path::Path;

use expert_contract::exit::Exit;
use expert_contract::results::SearchSetting;

use crate::args::{Global, PlanOptions, Supervision, whole};
use crate::edit::{self, Setting};
use crate::failure::Failure;
use crate::next::{self, Again};
use crate::runs::report;
use crate::search::{self, Budget, Found, Search, space};
use crate::sys::paths::near;
use crate::ui::Console;

#[derive(clap::Args)]
#[command(mut_arg("output", |arg| arg.help("The search's folder (default: weights/<model>-search beside the manifest)")))]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    /// Settings to vary, each with or without values: lr=1e-4..5e-3,rank=8|16|32,steps; also alpha, dropout, warmup, decay
    /// (default: lr,rank,steps; lr,steps where rank cannot be searched)
    #[arg(long, value_name = "SETTINGS")]
    space: Option<String>,
    /// Time (2h, 30m) or number of trials
    #[arg(long, value_name = "TIME|N", default_value = "9")]
    budget: Budget,
    /// Random seed of the trials
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..=u64::MAX))]
    search_seed: u64,
    /// Score at most this many validation rows, drawn evenly
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    rows: Option<u64>,
    /// Trials at once (default: one per GPU, or one per CPU core up to what memory allows)
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=64))]
    jobs: Option<u32>,
    /// Remove the search that the folder holds, and begin again
    #[arg(long)]
    fresh: bool,
    /// Write the winner's settings into the manifest; comments and formatting stay
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let options = &args.options;
    let file = options.manifest_file()?;
    let base = edit::base_of(options)?;
    if args.write && base.is_none() {
        return Err(edit::no_place_for_base());
    }
    let rehearse = |settings: &[SearchSetting]| match base.filter(|_| args.write) {
        Some(base) => edit::rehearse(&file, base, &of_manifest(settings), options, console),
        None => Ok(()),
    };
    let search = Search {
        options,
        space: args.space.as_deref(),
        budget: args.budget,
        seed: args.search_seed,
        rows: args.rows,
        jobs: args.jobs,
        fresh: args.fresh,
        supervision: &args.supervision,
        global,
        before: &rehearse,
    };
    let found = search::run(&search, console)?;
    search::show(&found, console);
    match report::of_search(&found.folder, global) {
        Ok(page) => console.say(&format!("report: {}", near(Path::new(&page)))),
        Err(failure) => console.warn(&failure.message, failure.hint.as_deref()),
    }
    if let Some(exit) = found.interrupted {
        console.say(&format!("to continue, repeat the command: {}", next::again(Again::Continue)));
        return Ok(exit);
    }
    if found.record.written.is_some() {
        console.say("the manifest has these settings already; --fresh begins another search around them");
    } else if args.write {
        write(&search, &found, &file, base.unwrap_or_default(), console)?;
    } else if found.record.winner.is_some_and(|winner| winner > 0)
        && search::not_whole(&found.record).is_none()
    {
        console.say(if search::own_has_failed(&found.record) {
            "next: the same command trains the manifest's own recipe again, to compare it with these settings"
        } else if search::is_noise(&found.record) {
            "next: keep the manifest's settings, or search again with more --rows"
        } else {
            "next: the same command with --write puts these settings into the manifest"
        });
    }
    Ok(Exit::Done)
}

/// What of a trial is written into the manifest.
fn of_manifest(settings: &[SearchSetting]) -> Vec<Setting> {
    let known = settings.iter().filter_map(|it| Some(Setting::new(space::key(&it.key)?, it.value.clone())));
    let replaced =
        settings.iter().filter_map(|it| space::replaced(&it.key)).map(|key| Setting::where_present(key, 0));
    known.chain(replaced).collect()
}

fn write(search: &Search, found: &Found, file: &Path, base: usize, console: &Console) -> Result<(), Failure> {
    // The settings of a shorter training may lose at full length, and so may those that were compared with nothing. In the
    // manifest they would make this another search, which cannot be continued.
    let not_compared = search::own_has_failed(&found.record).then(|| {
        "the manifest's own recipe failed at full length, and the same command trains it again".to_owned()
    });
    if let Some(why) = search::not_whole(&found.record).or(not_compared) {
        console.say(&format!("nothing is written to {}: {why}", near(file)));
        return Ok(());
    }
    let winner = found.record.winner.and_then(|winner| found.record.trials.get(winner as usize));
    let settings = winner.map(|it| of_manifest(&it.settings)).unwrap_or_default();
    let (text, changes) = edit::edited(file, base, &settings)?;
    if changes.is_empty() {
        console.say("the manifest has these settings already");
        return Ok(());
    }
    edit::write(&text, file, search.options, console)?;
    for change in &changes {
        console.say(&format!("  {change}"));
    }
    console.say(&format!("written to {}", file.display()));
    if search::is_noise(&found.record) {
        console.warn(
            "the difference to the manifest's own recipe is within noise: another set of rows may reverse it",
            Some("put the former values back, or search again with more --rows"),
        );
    }
    edit::warn_of_others(&text, base, &changes, console);
    search::note_written(search, found, console)
}
