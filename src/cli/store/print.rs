//! What the verbs of `lmc-gpu store` print.

use super::Output;
use crate::{
    Error, Result,
    archive::{AtomicFile, Options, Restored},
    cli::report,
    json,
    store::{Listing, Rebased, Removed, Saved, Stats, Store, Verified},
    text::shown,
};
use serde_json::{Value, json};
use std::{io::Write, path::Path};

/// Prints the JSON or the text, whichever was asked for.
fn put(output: &Output, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<()> {
    match (output.json, output.quiet) {
        (true, _) => report::json(false, &json()),
        (false, true) => Ok(()),
        (false, false) => report::page(false, text().trim_end_matches('\n')),
    }
}

pub fn policy(store: &Store, output: &Output) -> Result<()> {
    let p = store.policy();
    let named = |n: Option<u64>| n.map_or_else(|| "not set".to_owned(), |n| n.to_string());
    put(
        output,
        || json!({ "dir": store.root(), "policy": p }),
        || {
            format!(
                "{} is a store: full every {}, rebase above {}, chains of {} at most, \
                 keep last: {}, keep every: {}, state last: {}",
                shown(&store.root().display().to_string()),
                p.full_every,
                p.rebase_above,
                p.max_chain,
                named(p.keep_last),
                named(p.keep_every),
                named(p.state_last)
            )
        },
    )
}

pub fn saved(saved: &Saved, output: &Output) -> Result<()> {
    let r = &saved.record;
    put(
        output,
        || json::saved(saved),
        || {
            let kind = match r.base() {
                Some(base) => format!("delta to {base}"),
                None => "full".to_owned(),
            };
            let mut text = format!(
                "step {}: {} → {} ({:.4}), {kind}, {:.2} s",
                r.step,
                size(r.input_bytes),
                size(r.archive_bytes),
                r.ratio(),
                saved.seconds
            );
            for note in &saved.notes {
                text += &format!("\nnote: {}", shown(note));
            }
            if !saved.removed.steps.is_empty() {
                text += &format!("\nremoved {}", numbers(&saved.removed.steps));
            }
            text
        },
    )
}

pub fn rebased(rebased: &Rebased, output: &Output) -> Result<()> {
    let r = &rebased.record;
    put(
        output,
        || json::rebased(rebased),
        || {
            let kind = match r.base() {
                Some(base) => format!("a delta to {base}"),
                None => "full".to_owned(),
            };
            let mut text = format!(
                "step {}: {} → {} ({:.4}), {kind}",
                r.step,
                size(rebased.archive_bytes_before),
                size(r.archive_bytes),
                r.ratio()
            );
            for note in &rebased.notes {
                text += &format!("\nnote: {}", shown(note));
            }
            text
        },
    )
}

pub fn restored(step: u64, restored: &Restored, seconds: f64, output: &Output) -> Result<()> {
    let rate = restored.bytes as f64 / seconds.max(1e-9) / 1e9;
    put(
        output,
        || {
            let mut object = json::restored_in(restored, seconds);
            object["step"] = step.into();
            object
        },
        || {
            format!(
                "step {step}: {}, {} in {seconds:.2} s ({rate:.2} GB/s){}",
                report::count(restored.files, "file"),
                size(restored.bytes),
                match restored.damage.len() {
                    0 => "",
                    _ => "; what is damaged reads as zeros",
                }
            )
        },
    )
}

pub fn listing(store: &Store, listing: &Listing, output: &Output) -> Result<()> {
    put(
        output,
        || {
            let mut object = json::listing(listing);
            object["dir"] = json!(store.root());
            object["policy"] = json!(store.policy());
            object
        },
        || {
            let mut rows = vec![row(["step", "kind", "base", "chain", "size", "ratio", "saved"])];
            for r in &listing.steps {
                let base = r.base().map_or_else(|| "-".to_owned(), |b| b.to_string());
                rows.push(row([
                    &r.step.to_string(),
                    if r.base().is_some() { "delta" } else { "full" },
                    &base,
                    &r.chain.len().to_string(),
                    &size(r.archive_bytes),
                    &format!("{:.4}", r.ratio()),
                    &time(r.saved_at),
                ]));
            }
            let mut text = table(&rows);
            for (path, e) in &listing.unreadable {
                text += &format!(
                    "cannot be read: {}: {}\n",
                    shown(&path.display().to_string()),
                    shown(&e.to_string())
                );
            }
            text
        },
    )
}

pub fn verified(verified: &Verified, output: &Output) -> Result<()> {
    put(
        output,
        || json::verified(verified),
        || {
            let mut text = String::new();
            for s in verified.steps.iter().filter(|s| !s.is_whole()) {
                text += &format!("step {} is damaged", s.step);
                if !s.through.is_empty() {
                    text += &format!(" (it needs {}, damaged as well)", numbers(&s.through));
                }
                if !s.dependents.is_empty() {
                    let verb = if s.dependents.len() == 1 { "needs" } else { "need" };
                    text += &format!("; {} {verb} it", numbers(&s.dependents));
                }
                text += "\n";
                for problem in s.problems.iter().take(5) {
                    text += &format!("  {}\n", shown(problem));
                }
                if s.problems.len() > 5 {
                    text += &format!("  and {} more\n", s.problems.len() - 5);
                }
            }
            for line in &verified.unreadable {
                text += &format!("cannot be read: {}\n", shown(line));
            }
            if !verified.strays.is_empty() {
                text += &match verified.strays.len() {
                    1 => "one file was left by a killed run; the next save removes it\n".into(),
                    n => {
                        format!("{n} files were left by killed runs; the next save removes them\n")
                    }
                };
            }
            let whole = verified.steps.iter().filter(|s| s.is_whole()).count();
            let all = verified.steps.len();
            let verb = if whole == 1 { "restores" } else { "restore" };
            let all = report::count(all as u64, "step");
            text + &format!("{whole} of {all} {verb} exactly, {}", size(verified.bytes))
        },
    )
}

pub fn removed(removed: &Removed, dry_run: bool, output: &Output) -> Result<()> {
    put(
        output,
        || {
            let mut object = json::removed(removed);
            object["dry_run"] = json!(dry_run);
            object
        },
        || {
            let verb = if dry_run { "would remove" } else { "removed" };
            let mut text = match removed.steps.len() {
                0 => format!("{verb} no step"),
                _ => format!("{verb} {}", numbers(&removed.steps)),
            };
            let files = report::count(removed.files.len() as u64, "file");
            text += &format!(", {} in {files}", size(removed.bytes));
            match &removed.kept_as_base[..] {
                [] => {}
                [one] => text += &format!("; step {one} stays as a base (--rebase frees it)"),
                all => text += &format!("; {} stay as bases (--rebase frees them)", numbers(all)),
            }
            if !removed.rebased.is_empty() {
                text += &format!(
                    "; stored {} anew in {}",
                    numbers(&removed.rebased),
                    size(removed.written_bytes)
                );
            }
            if !removed.without_state.is_empty() {
                let steps = numbers(&removed.without_state);
                text += &format!("; {steps} stay without their optimizer's state");
            }
            text
        },
    )
}

pub fn stats(stats: &Stats, plot: Option<&Path>, output: &Output) -> Result<()> {
    put(
        output,
        || json::stats(stats),
        || {
            let mut head: Vec<String> =
                ["step", "kind", "base", "size", "ratio"].map(String::from).into();
            head.extend(stats.streams.iter().cloned());
            let mut rows = vec![head];
            for s in &stats.steps {
                let mut cells = row([
                    &s.step.to_string(),
                    s.kind(),
                    &s.base.map_or_else(|| "-".to_owned(), |b| b.to_string()),
                    &size(s.archive_bytes),
                    &format!("{:.4}", s.ratio()),
                ]);
                cells.extend((0..stats.streams.len()).map(|i| match s.stream_ratio(i) {
                    Some(ratio) => format!("{} ({ratio:.4})", size(s.stored_bytes[i])),
                    None => "-".into(),
                }));
                rows.push(cells);
            }
            let mut text = table(&rows);
            text += &format!(
                "{}: {} → {} ({:.4})",
                report::count(stats.steps.len() as u64, "step"),
                size(stats.input_bytes),
                size(stats.archive_bytes),
                stats.ratio()
            );
            for (kind, cost) in [("in full", stats.full_cost()), ("as a delta", stats.delta_cost())]
            {
                if let Some((bytes, ratio)) = cost {
                    text += &format!("\na step {kind} takes {} ({ratio:.4})", size(bytes));
                }
            }
            if stats.unreadable > 0 {
                let records = report::count(stats.unreadable as u64, "record");
                text += &format!("; {records} cannot be read");
            }
            if let Some(path) = plot {
                text += &format!("\nplot: {}", shown(&path.display().to_string()));
            }
            text
        },
    )
}

pub fn write_page(path: &Path, page: &str, options: &Options) -> Result<()> {
    let mut file = AtomicFile::with_options(path, options)?;
    file.write_all(page.as_bytes()).map_err(|e| Error::io("write", path, e))?;
    file.commit()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

fn numbers(steps: &[u64]) -> String {
    let shown: Vec<String> = steps.iter().take(12).map(u64::to_string).collect();
    let plural = if steps.len() == 1 { "step" } else { "steps" };
    let more = match steps.len().saturating_sub(12) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{plural} {}{more}", shown.join(", "))
}

fn size(bytes: u64) -> String {
    report::bytes(bytes)
}

fn table(rows: &[Vec<String>]) -> String {
    let all: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).collect();
    report::table(rows, &all) + "\n"
}

/// Seconds since 1970 as a date in UTC. Days are counted from 1 March of year 0, which puts leap
/// days at the end of a year.
fn time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00Z"),
            (951_782_400, "2000-02-29 00:00Z"),
            (1_764_439_287, "2025-11-29 18:01Z"),
            (4_107_542_399, "2100-02-28 23:59Z"),
            (4_107_542_400, "2100-03-01 00:00Z"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
