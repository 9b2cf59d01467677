//! What the library says of its work, as JSON: the one form of it, which `--json` of the command
//! prints and Python turns into dictionaries. Whoever knows more (where output went, how long it
//! took) adds fields.
//!
//! A path stands as text, with U+FFFD for what is not UTF-8; then its bytes stand beside it, as
//! hexadecimal digits in a field that ends in `_bytes`.

use crate::{
    archive::{BaseFile, BaseInfo, Damage, FileInfo, Inspection, Restored, SpanInfo, Summary},
    container::Name,
    store::{Listing, Removed, Report, Saved, Stats, StepHealth, StepRecord, StepStats, Verified},
};
#[cfg(feature = "cli")]
use crate::{
    archive::{Changed, Difference},
    store::Rebased,
};
use serde_json::{Value, json};

/// Stored bytes divided by bytes; 1 where there are none.
fn ratio(bytes: u64, stored: u64) -> f64 {
    if bytes == 0 { 1.0 } else { stored as f64 / bytes as f64 }
}

/// 1e9 bytes a second.
fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds.max(1e-9) / 1e9
}

/// Adds a path in the field `key`.
pub fn put_path(object: &mut Value, key: &str, path: &Name) {
    object[key] = path.to_text().into();
    if let Some(bytes) = path.to_hex() {
        object[format!("{key}_bytes")] = bytes.into();
    }
}

/// What compressing did.
pub fn summary(s: &Summary) -> Value {
    json!({
        "input_bytes": s.input_bytes,
        "output_bytes": s.output_bytes,
        "ratio": ratio(s.input_bytes, s.output_bytes),
        "seconds": s.seconds,
        "gb_per_s": gb_per_s(s.input_bytes, s.seconds),
        "device": s.device,
        "files": s.files,
        "spans": s.spans,
        "notes": s.notes,
    })
}

/// What restoring or verifying did.
pub fn restored(r: &Restored) -> Value {
    json!({
        "ok": r.damage.is_empty(),
        "bytes": r.bytes,
        "files": r.files,
        "damage": r.damage.iter().map(damage).collect::<Vec<_>>(),
    })
}

/// The same, with the time that it took.
pub fn restored_in(r: &Restored, seconds: f64) -> Value {
    let mut object = restored(r);
    object["seconds"] = seconds.into();
    object["gb_per_s"] = gb_per_s(r.bytes, seconds).into();
    object
}

fn damage(d: &Damage) -> Value {
    let mut object = json!({
        "chunk": d.chunk, "offset": d.offset, "bytes": d.len, "tensors": d.tensors,
        "reason": d.reason,
    });
    put_path(&mut object, "file", &d.file);
    object
}

/// What a checkpoint consists of, a part at a time: as a tree it would take fifty times the memory
/// of the header that names its tensors.
pub fn inspection<E>(
    found: &Inspection,
    mut put: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let stored = if found.is_archive { "stored_bytes" } else { "estimated_bytes" };
    let head = json!({
        "archive": found.is_archive,
        "bytes": found.bytes,
        stored: found.stored_bytes,
        "ratio": ratio(found.bytes, found.stored_bytes),
        "chunks": found.chunks,
        "base": found.base.as_ref().map(base),
        "notes": found.notes,
    });
    put(head.to_string().trim_end_matches('}'))?;
    put(",\"files\":[")?;
    for (i, f) in found.files.iter().enumerate() {
        put(if i > 0 { "," } else { "" })?;
        put(&file(f, stored).to_string())?;
    }
    put("],\"spans\":[")?;
    for (i, s) in found.spans.iter().enumerate() {
        put(if i > 0 { "," } else { "" })?;
        put(&span(s, found).to_string())?;
    }
    put("]}\n")
}

fn base(b: &BaseInfo) -> Value {
    let file = |f: &BaseFile| {
        let digest = f.digest.map(|d| format!("{d:032x}"));
        let mut object = json!({ "bytes": f.bytes, "digest": digest });
        put_path(&mut object, "path", &f.path);
        object
    };
    let mut object = json!({
        "needed": b.is_needed,
        "path": b.path,
        "archive": b.is_archive,
        "bytes": b.bytes(),
        "files": b.files.iter().map(file).collect::<Vec<_>>(),
    });
    put_path(&mut object, "name", &b.name);
    object
}

/// What tells two checkpoints apart.
#[cfg(feature = "cli")]
pub fn difference(d: &Difference) -> Value {
    let changed = |c: &Changed| {
        json!({
            "file": c.file, "name": c.name, "dtype": c.dtype.name(), "shape": c.shape,
            "words": c.words, "changed": c.changed, "bits": c.bits,
            "incomparable": c.incomparable,
        })
    };
    json!({
        "same": d.is_none(),
        "unchanged": d.same,
        "changed": d.changed.iter().map(changed).collect::<Vec<_>>(),
        "only_first": d.only_first,
        "only_second": d.only_second,
        "first_bytes": d.first_bytes,
        "second_bytes": d.second_bytes,
        "estimated_bytes": d.full_bytes,
        "estimated_delta_bytes": d.delta_bytes,
        "notes": d.notes,
    })
}

fn file(f: &FileInfo, stored: &str) -> Value {
    let mut object = json!({
        "directory": f.is_directory,
        "format": f.format.name(),
        "bytes": f.bytes,
        stored: f.stored_bytes,
        "tensors": f.tensors,
    });
    put_path(&mut object, "path", &f.path);
    object
}

fn span(s: &SpanInfo, found: &Inspection) -> Value {
    let file = &found.files[s.file];
    let mut object = json!({
        "format": file.format.name(),
        "name": s.name,
        "dtype": s.dtype.name(),
        "shape": s.shape,
        "offset": s.offset,
        "bytes": s.bytes,
        "method": s.method,
        "source": s.source,
        "stored_bytes": found.is_archive.then_some(s.stored_bytes),
        "ratio": ratio(s.bytes, s.stored_bytes),
    });
    put_path(&mut object, "file", &file.path);
    if let Some(why) = &s.guess {
        object["guess"] = why.as_str().into();
    }
    if !found.is_archive {
        object["estimated_bytes"] = s.stored_bytes.into();
        object["exponent_entropy"] = s.exponent_entropy.into();
    }
    object
}

/// What a store knows of a step.
pub fn record(r: &StepRecord) -> Value {
    json!({
        "step": r.step,
        "kind": if r.base().is_some() { "delta" } else { "full" },
        "base": r.base(),
        "chain": r.chain.iter().map(|l| l.step).collect::<Vec<_>>(),
        "archive": r.archive,
        "saved_at": r.saved_at,
        "input_bytes": r.input_bytes,
        "archive_bytes": r.archive_bytes,
        "ratio": r.ratio(),
        "files": r.files,
    })
}

/// The steps of a store.
pub fn listing(l: &Listing) -> Value {
    let unreadable = l.unreadable.iter();
    let unreadable = unreadable.map(|(path, e)| json!({ "path": path, "error": e.to_string() }));
    json!({
        "steps": l.steps.iter().map(record).collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
    })
}

/// What a save did.
pub fn saved(s: &Saved) -> Value {
    let mut object = record(&s.record);
    object["notes"] = json!(s.notes);
    object["seconds"] = s.seconds.into();
    object["waited_seconds"] = s.waited.into();
    object["gb_per_s"] = gb_per_s(s.record.input_bytes, s.seconds).into();
    object["removed"] = removed(&s.removed);
    object
}

/// What storing a step anew did.
#[cfg(feature = "cli")]
pub fn rebased(r: &Rebased) -> Value {
    let mut object = record(&r.record);
    object["archive_bytes_before"] = r.archive_bytes_before.into();
    object["notes"] = json!(r.notes);
    object["removed"] = removed(&r.removed);
    object
}

/// What was removed.
pub fn removed(r: &Removed) -> Value {
    json!({
        "steps": r.steps, "kept_as_base": r.kept_as_base, "without_state": r.without_state,
        "rebased": r.rebased, "written_bytes": r.written_bytes, "files": r.files, "bytes": r.bytes,
    })
}

/// What a store takes.
pub fn stats(s: &Stats) -> Value {
    let cost = |of: Option<(u64, f64)>| {
        of.map(|(bytes, ratio)| json!({ "archive_bytes": bytes, "ratio": ratio }))
    };
    json!({
        "input_bytes": s.input_bytes,
        "archive_bytes": s.archive_bytes,
        "ratio": s.ratio(),
        "a_delta": cost(s.delta_cost()),
        "a_full": cost(s.full_cost()),
        "steps": s.steps.iter().map(|step| step_stats(step, s)).collect::<Vec<_>>(),
        "unreadable": s.unreadable,
    })
}

fn step_stats(step: &StepStats, all: &Stats) -> Value {
    let streams = all.streams.iter().enumerate().map(|(i, name)| {
        json!({
            "name": name,
            "bytes": step.stream_bytes[i],
            "stored_bytes": step.stored_bytes[i],
            "ratio": step.stream_ratio(i),
        })
    });
    json!({
        "step": step.step,
        "kind": step.kind(),
        "base": step.base,
        "chain": step.chain,
        "input_bytes": step.input_bytes,
        "archive_bytes": step.archive_bytes,
        "ratio": step.ratio(),
        "streams": streams.collect::<Vec<_>>(),
    })
}

/// Whether the steps of a store restore exactly.
pub fn verified(v: &Verified) -> Value {
    let step = |s: &StepHealth| {
        json!({
            "step": s.step, "ok": s.is_whole(), "needs": s.needs, "problems": s.problems,
            "through": s.through, "dependents": s.dependents,
        })
    };
    json!({
        "ok": v.is_whole(),
        "bytes": v.bytes,
        "steps": v.steps.iter().map(step).collect::<Vec<_>>(),
        "unreadable": v.unreadable,
        "strays": v.strays,
    })
}

/// What a checkpointer did so far; times in seconds.
pub fn report(r: &Report) -> Value {
    json!({
        "saved": r.saved,
        "failed": r.failed,
        "input_bytes": r.input_bytes,
        "archive_bytes": r.archive_bytes,
        "stalled": r.stalled.as_secs_f64(),
        "spilled": r.spilled,
        "busy": r.busy.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_text_has_its_bytes_beside_it() {
        let mut object = json!({});
        put_path(&mut object, "file", &Name::from(&b"a\xff"[..]));
        put_path(&mut object, "path", &Name::from(&b"plain"[..]));
        assert_eq!(object, json!({ "file": "a\u{fffd}", "file_bytes": "61ff", "path": "plain" }));
    }

    #[test]
    fn a_tree_of_an_inspection_is_what_its_parts_make() {
        let mut text = String::new();
        let put = |part: &str| {
            text += part;
            Ok::<(), ()>(())
        };
        inspection(&Inspection::default(), put).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["ratio"], 1.0);
        assert_eq!((&object["files"], &object["spans"]), (&json!([]), &json!([])));
    }
}
