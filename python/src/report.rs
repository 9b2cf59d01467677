//! What the library says of its work, as JSON that Python turns into dictionaries. The fields are
//! those of the command line's `--json`.

use lmc_gpu::{
    archive::{Inspection, Restored, Summary},
    store::{Removed, Saved, Stats, StepRecord, Verified},
};
use serde_json::{Value, json};

fn ratio(bytes: u64, stored: u64) -> f64 {
    if bytes == 0 { 1.0 } else { stored as f64 / bytes as f64 }
}

pub fn summary(s: &Summary) -> String {
    json!({
        "input_bytes": s.input_bytes,
        "output_bytes": s.output_bytes,
        "ratio": ratio(s.input_bytes, s.output_bytes),
        "files": s.files,
        "spans": s.spans,
        "device": s.device,
        "seconds": s.seconds,
        "notes": s.notes,
    })
    .to_string()
}

pub fn restored(r: &Restored) -> String {
    let damage: Vec<Value> = r
        .damage
        .iter()
        .map(|d| {
            json!({
                "chunk": d.chunk,
                "file": d.file.to_text(),
                "offset": d.offset,
                "bytes": d.len,
                "tensors": d.tensors,
                "reason": d.reason,
            })
        })
        .collect();
    json!({
        "ok": damage.is_empty(),
        "bytes": r.bytes,
        "files": r.files,
        "damage": damage,
    })
    .to_string()
}

pub fn inspection(found: &Inspection) -> String {
    let stored = if found.is_archive { "stored_bytes" } else { "estimated_bytes" };
    let file = |f: &lmc_gpu::archive::FileInfo| {
        json!({
            "path": f.path.to_text(),
            "directory": f.is_directory,
            "format": f.format.name(),
            "bytes": f.bytes,
            stored: f.stored_bytes,
            "tensors": f.tensors,
        })
    };
    let span = |s: &lmc_gpu::archive::SpanInfo| {
        json!({
            "file": found.files[s.file].path.to_text(),
            "name": s.name,
            "dtype": s.dtype.name(),
            "shape": s.shape,
            "offset": s.offset,
            "bytes": s.bytes,
            "method": s.method,
            stored: s.stored_bytes,
            "ratio": ratio(s.bytes, s.stored_bytes),
            "source": s.source,
            "exponent_entropy": s.exponent_entropy,
        })
    };
    json!({
        "archive": found.is_archive,
        "bytes": found.bytes,
        stored: found.stored_bytes,
        "ratio": ratio(found.bytes, found.stored_bytes),
        "chunks": found.chunks,
        "notes": found.notes,
        "files": found.files.iter().map(file).collect::<Vec<_>>(),
        "spans": found.spans.iter().map(span).collect::<Vec<_>>(),
    })
    .to_string()
}

pub fn record(r: &StepRecord) -> Value {
    json!({
        "step": r.step,
        "base": r.base(),
        "chain": r.chain.len(),
        "saved_at": r.saved_at,
        "input_bytes": r.input_bytes,
        "archive_bytes": r.archive_bytes,
        "ratio": r.ratio(),
        "files": r.files,
    })
}

pub fn removed(r: &Removed) -> Value {
    json!({
        "steps": r.steps,
        "kept_as_base": r.kept_as_base,
        "files": r.files,
        "bytes": r.bytes,
    })
}

pub fn saved(s: &Saved) -> String {
    let mut found = record(&s.record);
    found["notes"] = json!(s.notes);
    found["removed"] = removed(&s.removed);
    found["seconds"] = json!(s.seconds);
    found["waited"] = json!(s.waited);
    found.to_string()
}

pub fn stats(s: &Stats) -> String {
    let step = |step: &lmc_gpu::store::StepStats| {
        let streams = s.streams.iter().enumerate().map(|(i, name)| {
            let sizes =
                json!({"bytes": step.stream_bytes[i], "stored_bytes": step.stored_bytes[i]});
            (name.clone(), sizes)
        });
        json!({
            "step": step.step,
            "kind": step.kind(),
            "base": step.base,
            "chain": step.chain,
            "input_bytes": step.input_bytes,
            "archive_bytes": step.archive_bytes,
            "ratio": step.ratio(),
            "streams": streams.collect::<serde_json::Map<_, _>>(),
        })
    };
    json!({
        "steps": s.steps.iter().map(step).collect::<Vec<_>>(),
        "input_bytes": s.input_bytes,
        "archive_bytes": s.archive_bytes,
        "ratio": s.ratio(),
        "unreadable": s.unreadable,
    })
    .to_string()
}

pub fn verified(v: &Verified) -> String {
    let step = |s: &lmc_gpu::store::StepHealth| {
        json!({
            "step": s.step,
            "ok": s.is_whole(),
            "needs": s.needs,
            "problems": s.problems,
            "through": s.through,
            "dependents": s.dependents,
        })
    };
    json!({
        "ok": v.is_whole(),
        "steps": v.steps.iter().map(step).collect::<Vec<_>>(),
        "unreadable": v.unreadable,
        "strays": v.strays,
        "bytes": v.bytes,
    })
    .to_string()
}
