//! The page: stacked bars, one a step, a colour a stream, and the table behind them.

use super::{Stats, StepStats};
use crate::text::escape_html;
use std::fmt::Write;

const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 12.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fdfdfc;--fg:#1c1c1a;--dim:#6b6b66;--line:#e2e1dc;\
--s0:#2a6fc9;--s1:#d9822b;--s2:#1a936f;--s3:#8b5bb5;--s4:#c2464b;--s5:#7a8b1f;--s6:#b05a92;--s7:#85837c}\
@media(prefers-color-scheme:dark){:root{--bg:#191917;--fg:#ecebe6;--dim:#a09f98;--line:#383733;\
--s0:#5c9bea;--s1:#e8a25c;--s2:#46b893;--s3:#b08ad6;--s4:#e0767a;--s5:#a9b94d;--s6:#d488b9;--s7:#9d9b93}}\
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;\
max-width:64rem;padding:0 1rem}h1{font-size:1.3rem;margin:0 0 .3rem}p{color:var(--dim);margin:0 0 1rem}\
.scroll{overflow-x:auto}svg{max-width:100%;height:auto}.full{fill:var(--fg)}svg text{fill:var(--dim);font:12px system-ui,sans-serif}\
.grid{stroke:var(--line)}.key{display:inline-block;margin-right:1.2rem}\
.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin-top:1.5rem}\
td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th{color:var(--dim);font-weight:500}\
.s0{fill:var(--s0);background:var(--s0)}.s1{fill:var(--s1);background:var(--s1)}\
.s2{fill:var(--s2);background:var(--s2)}.s3{fill:var(--s3);background:var(--s3)}\
.s4{fill:var(--s4);background:var(--s4)}.s5{fill:var(--s5);background:var(--s5)}\
.s6{fill:var(--s6);background:var(--s6)}.s7{fill:var(--s7);background:var(--s7)}";

/// The whole page.
pub(super) fn page(stats: &Stats, title: &str) -> String {
    let mut html =
        String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">";
    let title = escape_html(title);
    let _ = write!(html, "<title>{title}</title><style>{STYLE}</style></head><body>");
    let _ = write!(
        html,
        "<h1>{title}</h1><p>{} steps, {} of checkpoints in {}: ratio {:.4}. ● marks a step that \
         is stored in full, the others are deltas.</p><p>",
        stats.steps.len(),
        size(stats.input_bytes),
        size(stats.archive_bytes),
        stats.ratio()
    );
    for (i, stream) in stats.streams.iter().enumerate() {
        let _ = write!(
            html,
            "<span class=\"key\"><i class=\"s{i}\"></i>{}</span>",
            escape_html(stream)
        );
    }
    html += "</p><div class=\"scroll\">";
    html += &svg(stats);
    html += "</div><div class=\"scroll\">";
    html += &table(stats);
    html += "</div></body></html>\n";
    html
}

fn svg(stats: &Stats) -> String {
    let n = stats.steps.len().max(1) as f64;
    // All steps within the page, however many.
    let pitch = (860.0 / n).min(70.0);
    let width = LEFT + n * pitch + 10.0;
    let most = stats.steps.iter().map(|s| s.archive_bytes).max().unwrap_or(0).max(1) as f64;
    let tick = tick(most);
    let top = (most / tick).ceil() * tick;
    let y = |bytes: f64| TOP + HEIGHT * (1.0 - bytes / top);
    let mut out = format!(
        "<svg role=\"img\" aria-label=\"archive size by step and stream\" width=\"{width:.0}\" \
         height=\"{h:.0}\" viewBox=\"0 0 {width:.0} {h:.0}\">",
        h = TOP + HEIGHT + 44.0
    );
    for i in 0..=(top / tick).round() as u64 {
        let bytes = i as f64 * tick;
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{width:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{x}\" y=\"{t:.1}\" text-anchor=\"end\">{}</text>",
            size(bytes as u64),
            y = y(bytes),
            t = y(bytes) + 4.0,
            x = LEFT - 8.0
        );
    }
    let every = (60.0 / pitch).ceil() as usize;
    for (i, step) in stats.steps.iter().enumerate() {
        let x = LEFT + i as f64 * pitch;
        let gap = if pitch < 3.0 { 0.0 } else { (pitch * 0.15).min(6.0) };
        let _ = write!(out, "<g><title>{}</title>", escape_html(&describe(stats, step)));
        let mut below = 0.0;
        for (k, &bytes) in step.stored_bytes.iter().enumerate() {
            let (from, to) = (below, below + bytes as f64);
            let _ = write!(
                out,
                "<rect class=\"s{k}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                x + gap,
                y(to),
                pitch - 2.0 * gap,
                y(from) - y(to)
            );
            below = to;
        }
        let middle = x + pitch / 2.0;
        let foot = TOP + HEIGHT;
        if step.base.is_none() {
            let _ = write!(
                out,
                "<circle class=\"full\" cx=\"{middle:.1}\" cy=\"{:.1}\" r=\"{:.1}\"/>",
                foot + 12.0,
                (pitch * 0.4).clamp(1.0, 3.5)
            );
        }
        if i % every == 0 {
            let _ = write!(
                out,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                foot + 34.0,
                step.step
            );
        }
        out += "</g>";
    }
    out + "</svg>"
}

fn describe(stats: &Stats, step: &StepStats) -> String {
    let mut text = format!("step {}", step.step);
    match step.base {
        Some(base) => {
            let _ = write!(text, ", delta to {base}");
        }
        None => text += ", full",
    }
    let _ = write!(text, ": {}, ratio {:.4}", size(step.archive_bytes), step.ratio());
    for (i, stream) in stats.streams.iter().enumerate() {
        if let Some(ratio) = step.stream_ratio(i) {
            let _ = write!(text, "\n{stream}: {} ({ratio:.4})", size(step.stored_bytes[i]));
        }
    }
    text
}

fn table(stats: &Stats) -> String {
    let mut out = String::from(
        "<table><thead><tr><th>step</th><th>kind</th><th>base</th><th>size</th><th>ratio</th>",
    );
    for stream in &stats.streams {
        let _ = write!(out, "<th>{}</th>", escape_html(stream));
    }
    out += "</tr></thead><tbody>";
    for step in &stats.steps {
        let base = step.base.map_or_else(|| "–".to_owned(), |b| b.to_string());
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{base}</td><td>{}</td><td>{:.4}</td>",
            step.step,
            step.kind(),
            size(step.archive_bytes),
            step.ratio()
        );
        for i in 0..stats.streams.len() {
            match step.stream_ratio(i) {
                Some(ratio) => {
                    let stored = size(step.stored_bytes[i]);
                    let _ = write!(out, "<td>{stored} ({ratio:.4})</td>");
                }
                None => out += "<td>–</td>",
            }
        }
        out += "</tr>";
    }
    out + "</tbody></table>"
}

/// A round distance between grid lines, four to eight of them.
fn tick(most: f64) -> f64 {
    let unit = 10f64.powf((most / 4.0).log10().floor()).max(1.0);
    let fits = [5.0, 2.0].into_iter().find(|k| most / (unit * k) >= 3.0);
    unit * fits.unwrap_or(1.0)
}

fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.2} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_steps_fits_a_page() {
        for n in [1, 12, 130, 5000] {
            let step = |step| StepStats {
                step,
                archive_bytes: 7,
                stream_bytes: vec![9],
                stored_bytes: vec![7],
                ..StepStats::default()
            };
            let stats = Stats {
                streams: vec!["model".into()],
                steps: (0..n).map(step).collect(),
                ..Stats::default()
            };
            let svg = svg(&stats);
            let width = svg.split("width=\"").nth(1).and_then(|w| w.split('"').next());
            assert!(width.unwrap().parse::<f64>().unwrap() <= 960.0, "{n} steps: {width:?}");
            let labels = svg.matches("text-anchor=\"middle\"").count();
            assert!(labels <= 15, "{n} steps have {labels} labels");
        }
        assert!(STYLE.contains("svg{max-width:100%"));
    }

    #[test]
    fn the_page_names_every_step_and_stream_and_escapes_them() {
        let step = |step, base, a, b| StepStats {
            step,
            base,
            chain: 0,
            input_bytes: 100,
            archive_bytes: a + b,
            stream_bytes: vec![60, 40],
            stored_bytes: vec![a, b],
        };
        let stats = Stats {
            streams: vec!["model".into(), "<x>".into()],
            steps: vec![step(10, None, 50, 30), step(20, Some(10), 5, 0)],
            input_bytes: 200,
            archive_bytes: 85,
            unreadable: 0,
        };
        let html = stats.to_html("run & more");
        for part in ["run &amp; more", "&lt;x&gt;", "delta to 10", "prefers-color-scheme:dark"] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("<x>") && !html.contains("NaN") && !html.contains("inf"));
        assert!(!Stats::default().to_html("").contains("NaN"));
    }
}
