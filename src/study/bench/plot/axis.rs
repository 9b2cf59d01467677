//! Axes of plots: what they measure, which range they show and where their ticks are.

/// An axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Whether equal distances are equal factors.
    pub log: bool,
    /// Where these are given, shown at 0, 1, 2, … instead of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// An axis of numbers, on which equal distances are equal differences.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// An axis of numbers, on which equal distances are equal factors.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: true, ..Axis::default() }
    }

    /// An axis of these places.
    pub fn named(label: impl Into<String>, names: Vec<String>) -> Axis {
        Axis { label: label.into(), log: false, names }
    }

    /// Where something stands beside the axis, and what.
    pub(super) fn ticks(&self, scale: &Scale) -> Vec<(f64, String)> {
        match self.names.is_empty() {
            true => scale.ticks.iter().map(|&t| (scale.place(t), number(t))).collect(),
            false => {
                (0..).zip(&self.names).map(|(i, n)| (scale.place(i.into()), n.clone())).collect()
            }
        }
    }
}

/// The range of an axis and where its ticks are, mapped to pixels.
pub(super) struct Scale {
    log: bool,
    from: f64,
    to: f64,
    pixels: (f64, f64),
    ticks: Vec<f64>,
}

impl Scale {
    pub fn new(
        values: impl Iterator<Item = f64>,
        log: bool,
        zero: bool,
        pixels: (f64, f64),
    ) -> Scale {
        let usable = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (mut from, mut to) =
            usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if from > to {
            (from, to) = if log { (0.1, 1.0) } else { (0.0, 1.0) };
        }
        if log {
            return Scale {
                log,
                from: from / 1.4,
                to: to * 1.4,
                pixels,
                ticks: log_ticks(from / 1.4, to * 1.4),
            };
        }
        if zero {
            from = from.min(0.0);
        }
        let span = if to > from { to - from } else { to.abs().max(1e-9) };
        from -= if zero && from == 0.0 { 0.0 } else { 0.06 * span };
        to += 0.06 * span;
        let step = step(to - from);
        let first = (from / step).ceil() as i64;
        let ticks = (first..).map(|i| i as f64 * step).take_while(|t| *t <= to).take(30).collect();
        Scale { log, from, to, pixels, ticks }
    }

    pub fn place(&self, value: f64) -> f64 {
        let part = match self.log {
            true => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }
}

/// A distance of ticks that gives about six.
fn step(span: f64) -> f64 {
    let rough = span / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough);
    factor.unwrap_or(10.0) * power
}

fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
    let factors: &[f64] = if to / from > 1000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    decades
        .flat_map(|d| factors.iter().map(move |f| f * 10f64.powi(d)))
        .filter(|t| (from..=to).contains(t))
        .collect()
}

fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        v if v >= 100.0 => usize::from(v.fract() != 0.0),
        v if v >= 1.0 => 2,
        v if v >= 0.01 => 3,
        _ => 5,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}
