//! What a run found: as text, as JSON and as one self-contained page.

use std::fmt::Write as _;

use serde::Serialize;

use super::{device::Stages, measure::Record, plot::Plot, table::Table};
use crate::{simd::Level, text::escape_html};

/// A part of a report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// What was found, each a sentence or two.
    pub answers: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
    /// The same to look at; on the page only.
    pub plots: Vec<Plot>,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was run.
    pub title: String,
    /// Seed of synthetic data.
    pub seed: u64,
    /// Threads that parallel methods used.
    pub threads: usize,
    /// Device that transforms ran on.
    pub device: String,
    /// Speed of a warm copy in the same run.
    pub memcpy_gb_s: f64,
    /// The parts, in order.
    pub sections: Vec<Section>,
    /// Every single measurement.
    pub results: Vec<Record>,
    /// Where the time went with a device.
    pub stages: Vec<Stages>,
    /// What failed while the rest went on: sentences.
    pub failures: Vec<String>,
    /// Whether the run was ended before all was measured.
    pub interrupted: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    title: &'a str,
    memcpy_gb_s: f64,
    simd: &'a str,
    threads: usize,
    device: &'a str,
    seed: u64,
    interrupted: bool,
    failures: &'a [String],
    answers: Vec<&'a String>,
    tables: Vec<&'a Table>,
    results: &'a [Record],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stages: &'a [Stages],
}

impl Report {
    /// A report that nothing is in yet, of a run on this machine.
    pub fn new(title: impl Into<String>, seed: u64, threads: usize) -> Report {
        Report {
            title: title.into(),
            seed,
            threads,
            device: "cpu".into(),
            memcpy_gb_s: super::measure::memcpy_gb_s(64 << 20),
            ..Report::default()
        }
    }

    fn environment(&self) -> String {
        format!(
            "SIMD level {}, {} thread{}, device {}, memcpy {:.1} GB/s in this run, seed {}. \
             Every method was decoded and compared with its input in this run. Ratio = coded / \
             input bytes, everything counted; GB/s = 1e9 input bytes a second, warm buffers.",
            Level::best().name(),
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.device,
            self.memcpy_gb_s,
            self.seed
        )
    }

    fn end(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.interrupted {
            lines.push("The run was ended early; what was measured until then is above.".into());
        }
        lines.extend(self.failures.iter().map(|f| format!("Failed: {f}")));
        lines
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, wrap(&self.environment()));
        for section in &self.sections {
            let _ = writeln!(text, "\n## {}", section.heading);
            for answer in &section.answers {
                let _ = writeln!(text, "{}", wrap(answer));
            }
            for table in &section.tables {
                let _ = write!(text, "\n{}", table.to_text());
            }
        }
        for line in self.end() {
            let _ = writeln!(text, "\n{}", wrap(&line));
        }
        text
    }

    /// One object; see `results` for every measurement.
    pub fn to_json(&self) -> String {
        let json = Json {
            title: &self.title,
            memcpy_gb_s: self.memcpy_gb_s,
            simd: Level::best().name(),
            threads: self.threads,
            device: &self.device,
            seed: self.seed,
            interrupted: self.interrupted,
            failures: &self.failures,
            answers: self.sections.iter().flat_map(|s| &s.answers).collect(),
            tables: self.sections.iter().flat_map(|s| &s.tables).collect(),
            results: &self.results,
            stages: &self.stages,
        };
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(&json).unwrap_or_default()
    }

    /// A page that needs nothing beside itself.
    pub fn to_html(&self) -> String {
        let title = escape_html(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1><p>{}</p>\n",
            escape_html(&self.environment())
        );
        if self.sections.len() > 1 {
            html.push_str("<nav><ol>");
            for (i, section) in self.sections.iter().enumerate() {
                let heading = escape_html(&section.heading);
                let _ = write!(html, "<li><a href=\"#s{i}\">{heading}</a></li>");
            }
            html.push_str("</ol></nav>\n");
        }
        for (i, section) in self.sections.iter().enumerate() {
            let _ = writeln!(html, "<h2 id=\"s{i}\">{}</h2>", escape_html(&section.heading));
            for answer in &section.answers {
                let _ = writeln!(html, "<p class=\"a\">{}</p>", escape_html(answer));
            }
            for plot in &section.plots {
                let _ = writeln!(html, "<figure>{}</figure>", plot.to_svg());
            }
            for table in &section.tables {
                put_table(table, &mut html);
            }
        }
        for line in self.end() {
            let _ = writeln!(html, "<p class=\"f\">{}</p>", escape_html(&line));
        }
        html.push_str("</body></html>\n");
        html
    }
}

fn put_table(table: &Table, html: &mut String) {
    let row = |cells: &[String], tag: &str| -> String {
        let cells = cells.iter().map(|c| format!("<{tag}>{}</{tag}>", escape_html(c)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let _ = write!(
        html,
        "<div class=\"w\"><table><caption>{}</caption><thead>{}</thead><tbody>",
        escape_html(&table.title),
        row(&table.columns, "th")
    );
    for cells in &table.rows {
        html.push_str(&row(cells, "td"));
    }
    html.push_str("</tbody></table></div>\n");
}

/// Breaks lines at 100 characters.
fn wrap(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if width > 0 && width + 1 + len > 100 {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += len;
    }
    lines
}

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1f24;--dim:#5b6270;--line:#dfe3ea;--box:#f6f7f9;\
--c0:#2563c9;--c1:#c2410c;--c2:#15803d;--c3:#8b2fb8;--c4:#a16207;--c5:#0e7490;--c6:#be185d;\
--c7:#57606f}\
@media (prefers-color-scheme:dark){:root{--bg:#14171c;--fg:#e6e8ec;--dim:#9aa3b2;--line:#2c323c;\
--box:#1b1f26;--c0:#7aa7ff;--c1:#ff9a66;--c2:#6fd08c;--c3:#d79bff;--c4:#e6c15a;--c5:#63d0e6;\
--c6:#ff8fbf;--c7:#aab3c2}}\
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:860px;\
margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}a{color:var(--c0)}h2{font-size:1.15rem;margin-top:2.2rem}\
p.a{border-left:3px solid var(--c0);padding-left:.8rem}p.f{border-left:3px solid var(--c1);\
padding-left:.8rem}\
figure{margin:1rem 0;background:var(--box);border-radius:6px;padding:.4rem}\
svg{width:100%;height:auto;display:block}\
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}svg text.t{font-size:13px;fill:var(--fg)}\
svg text.l{fill:var(--fg);paint-order:stroke;stroke:var(--box);stroke-width:3px}svg path.g{stroke:var(--line);stroke-width:1;fill:none}\
.w{overflow-x:auto}table{border-collapse:collapse;font-size:13px;margin:1rem 0;\
font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--dim);padding-bottom:.3rem}\
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th{color:var(--dim);font-weight:600}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_forms_hold_answers_tables_and_failures() {
        let mut report = Report::new("A <run>", 1, 2);
        let mut table = Table::new("figures", &["method", "ratio"]);
        table.push(vec!["a&b".into(), "0.5".into()]);
        let answers = vec!["It holds.".into()];
        report.sections.push(Section {
            heading: "First".into(),
            answers,
            tables: vec![table],
            plots: vec![],
        });
        report.failures.push("x failed on y.".into());
        for text in [report.to_text(), report.to_json(), report.to_html()] {
            assert!(text.contains("It holds.") && text.contains("0.5"));
            assert!(text.contains("x failed on y."));
        }
        assert!(report.to_html().contains("A &lt;run&gt;"));
        assert!(serde_json::from_str::<serde_json::Value>(&report.to_json()).is_ok());
    }
}
