//! What the readers make of an archive, and what may not be.

use crate::{
    anatomy,
    case::{Case, Cases, Draw},
    forge::{Claim, Forged},
    memory, promise,
    subject::{Subject, limits},
    table,
};
use lmc_gpu::{
    Archive, Error, Limits, OnDamage,
    internals::{
        archive::{Options, decompress_to_writer, verify_stream},
        simd::Level,
    },
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// More than this is not restored here, though an archive may say that it holds it.
const MOST: u64 = 4 << 20;

/// What a reader restored, `None` where it does not say, or why it did not.
type Outcome = Result<Option<Vec<u8>>, Error>;

/// Runs `work`; a panic is what it said.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words").to_owned()
    })
}

fn seek(subject: &Subject, bytes: &[u8], options: &Options, also: bool) -> Outcome {
    let archive = Archive::from_bytes(bytes, &options.restoring())?;
    if let Some(base) = &subject.base {
        archive.attach_base(base)?;
    }
    let len = archive.total_len();
    if also {
        let _ = archive.verify(&options.restoring().with_damage(OnDamage::Fill));
    }
    if len > MOST {
        return archive.verify(&options.restoring()).map(|_| None);
    }
    let mut out = vec![0; len as usize];
    archive.restore_all_into(&mut out, &options.restoring())?;
    Ok(Some(out))
}

fn forward(subject: &Subject, bytes: &[u8], options: &Options, also: bool) -> Outcome {
    if also {
        let _ = verify_stream(&mut &bytes[..], &options.restoring().with_damage(OnDamage::Fill));
    }
    let is_file = anatomy::manifest_body(bytes).is_some_and(|b| b.first() == Some(&0));
    if subject.is_directory || !is_file {
        return verify_stream(&mut &bytes[..], &options.restoring()).map(|_| None);
    }
    let mut out = Vec::new();
    decompress_to_writer(&mut &bytes[..], &mut out, &options.restoring()).map(|_| Some(out))
}

/// Hands an archive to both readers.
pub fn judge(cases: &mut Cases, case: &mut Case, subject: &Subject, forged: &Forged) {
    if forged.bytes == subject.archive {
        return cases.count("unchanged");
    }
    let levels = Level::available();
    let limits = if forged.limited { limits() } else { Limits::default() };
    let options = subject.options().with_limits(limits).with_level(*case.rng.pick(&levels));
    let options = options.with_threads(if case.rng.one_in(16) { 2 } else { 1 });
    let also = case.rng.one_in(4);
    let bytes = &forged.bytes[..];
    let what = |text: &str| format!("{} of {}: {text}", forged.how, subject.name);
    let number = case.number;
    let (found, peak) = memory::peak(|| {
        [
            guarded(|| seek(subject, bytes, &options, also)),
            guarded(|| forward(subject, bytes, &options, also)),
        ]
    });
    if peak > (64 << 20) + 64 * bytes.len() {
        let text = format!("{} MiB for {} bytes", peak >> 20, bytes.len());
        let required = forged.limited || promise::SMALL_TABLES_REQUIRED;
        cases.broken(required, "too much memory", number, &what(&text));
    }
    let mut accepted = [false; 2];
    for (i, (reader, outcome)) in ["seeking", "forward"].iter().zip(&found).enumerate() {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(panic) => {
                cases.broken(true, "panic", number, &what(&format!("{reader}: {panic}")));
                continue;
            }
        };
        let Ok(restored) = outcome else { continue };
        accepted[i] = true;
        let due = forged.restores.as_ref().unwrap_or(&subject.original);
        if restored.as_ref().is_some_and(|r| r != due) {
            cases.broken(true, "wrong bytes", number, &what(reader));
        }
        // The index of version 1 does not bind the manifest for a reader that seeks.
        let bound = *reader == "forward" || subject.anatomy.version() >= 2;
        if forged.claim == Claim::Everything
            && bound
            && anatomy::manifest_body(bytes).as_ref() != Some(&subject.manifest)
        {
            cases.broken(true, "wrong names", number, &what(reader));
        }
    }
    let [seeking, forward] = accepted;
    if seeking && !anatomy::manifest_body(bytes).is_some_and(|b| table::names_are_sound(&b)) {
        cases.broken(true, "no names", number, &what("accepted"));
    }
    if seeking != forward && found.iter().all(Result::is_ok) {
        let why = found.iter().flatten().find_map(|o| o.as_ref().err()).map(Error::to_string);
        let reader = if seeking { "only seeking accepts" } else { "only forward accepts" };
        let text = format!("{reader}: {}", why.unwrap_or_default());
        cases.broken(promise::AGREEMENT_REQUIRED, "readers disagree", number, &what(&text));
    }
    cases.count(match accepted {
        [true, true] => "accepted",
        [false, false] => "refused",
        _ => "refused by one",
    });
}
