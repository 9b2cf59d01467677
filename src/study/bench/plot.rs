//! Plots as inline SVG that takes its colours from the page, so that it reads in light and dark.

mod axis;

pub use axis::Axis;

use crate::text::escape_html;
use std::fmt::Write as _;

use axis::Scale;

/// How the points of a curve are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Joined by a line.
    Line,
    /// Dots with their label beside them.
    Dot,
    /// Bars from the bottom up.
    Bar,
    /// Joined by a thin dashed line without dots.
    Dashed,
}

/// A point, with the label that dots show.
#[derive(Clone, Debug)]
pub struct Point {
    /// Place along x.
    pub x: f64,
    /// Place along y.
    pub y: f64,
    /// Shown beside dots, and by pointing at any mark.
    pub label: String,
}

/// Points of one kind.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name in the legend; without one the curve is not in it.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// A plot of several curves over common axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Left to right.
    pub x: Axis,
    /// Bottom to top.
    pub y: Axis,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 46.0;
/// Colours that the page defines as `--c0` and so on.
pub const N_COLOURS: usize = 8;

impl Plot {
    /// The plot as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|c| &c.points);
        let bars = self.curves.iter().any(|c| c.mark == Mark::Bar);
        let x = Scale::new(points().map(|p| p.x), self.x.log, false, (LEFT, WIDTH - RIGHT));
        let y = Scale::new(points().map(|p| p.y), self.y.log, bars, (HEIGHT - BOTTOM, TOP));
        let mut svg = String::new();
        let title = escape_html(&self.title);
        let _ = write!(
            svg,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\
             <text x=\"{LEFT}\" y=\"18\" class=\"t\">{title}</text>"
        );
        self.axes(&x, &y, &mut svg);
        // Labels keep clear of what is drawn, so dots, which have them, come last.
        let mut taken = Vec::new();
        for dots in [false, true] {
            for (i, curve) in self.curves.iter().enumerate() {
                if dots == (curve.mark == Mark::Dot) {
                    curve.draw(i % N_COLOURS, &x, &y, &mut taken, &mut svg);
                }
            }
        }
        self.legend(&mut svg);
        svg.push_str("</svg>");
        svg
    }

    fn axes(&self, x: &Scale, y: &Scale, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (at, text) in self.x.ticks(x) {
            let text = escape_html(&text);
            let _ = write!(
                svg,
                "<path class=\"g\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            );
        }
        for (at, text) in self.y.ticks(y) {
            let text = escape_html(&text);
            let _ = write!(
                svg,
                "<path class=\"g\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escape_html(&self.x.label),
            (TOP + bottom) / 2.0,
            escape_html(&self.y.label)
        );
    }

    /// Names of the curves in a row under the title.
    fn legend(&self, svg: &mut String) {
        let mut at = LEFT;
        for (i, curve) in self.curves.iter().enumerate().filter(|(_, c)| !c.name.is_empty()) {
            let colour = i % N_COLOURS;
            let _ = match curve.mark {
                Mark::Dashed => write!(
                    svg,
                    "<path d=\"M{at:.1} 32h12\" style=\"stroke:var(--c{colour});stroke-width:1.6;\
                     stroke-dasharray:5 2\"/>"
                ),
                _ => write!(
                    svg,
                    "<rect x=\"{at:.1}\" y=\"27\" width=\"10\" height=\"10\" \
                     style=\"fill:var(--c{colour})\"/>"
                ),
            };
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"36\">{}</text>",
                at + 16.0,
                escape_html(&curve.name)
            );
            at += 32.0 + 6.2 * curve.name.chars().count() as f64;
        }
    }
}

/// Where labels are already: left, top, right, bottom.
type Boxes = Vec<[f64; 4]>;

impl Curve {
    fn draw(&self, colour: usize, x: &Scale, y: &Scale, taken: &mut Boxes, svg: &mut String) {
        let drawn: Vec<(f64, f64, &str)> = self
            .points
            .iter()
            .filter(|p| p.x.is_finite() && p.y.is_finite())
            .map(|p| (x.place(p.x), y.place(p.y), p.label.as_str()))
            .collect();
        if matches!(self.mark, Mark::Line | Mark::Dashed) && !drawn.is_empty() {
            let mut path = String::new();
            for (i, (x, y, _)) in drawn.iter().enumerate() {
                let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
            }
            let dash = if self.mark == Mark::Dashed { ";stroke-dasharray:5 4" } else { "" };
            let style = format!("fill:none;stroke:var(--c{colour});stroke-width:1.6{dash}");
            let _ = write!(svg, "<path d=\"{path}\" style=\"{style}\"/>");
            for pair in drawn.windows(2) {
                let ((ax, ay, _), (bx, by, _)) = (pair[0], pair[1]);
                let n = ((bx - ax).hypot(by - ay) / 6.0).ceil();
                for i in 0..=n as u32 {
                    let part = f64::from(i) / n.max(1.0);
                    let (x, y) = (ax + part * (bx - ax), ay + part * (by - ay));
                    taken.push([x - 2.0, y - 2.0, x + 2.0, y + 2.0]);
                }
            }
        }
        let fill = format!("style=\"fill:var(--c{colour})\"");
        for &(px, py, label) in &drawn {
            let label = escape_html(label);
            let _ = match self.mark {
                Mark::Dashed => Ok(()),
                Mark::Bar => {
                    let width = 0.7 * (x.place(1.0) - x.place(0.0)).clamp(1.0, 40.0);
                    let height = (HEIGHT - BOTTOM - py).max(0.0);
                    write!(
                        svg,
                        "<rect x=\"{:.1}\" y=\"{py:.1}\" width=\"{width:.1}\" \
                         height=\"{height:.1}\" {fill}><title>{label}</title></rect>",
                        px - width / 2.0
                    )
                }
                Mark::Line | Mark::Dot => write!(
                    svg,
                    "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"{}\" {fill}>\
                     <title>{label}</title></circle>",
                    if self.mark == Mark::Dot { 4.0 } else { 2.5 }
                ),
            };
            taken.push([px - 4.0, py - 4.0, px + 4.0, py + 4.0]);
        }
        if self.mark == Mark::Dot {
            // The rightmost first: they have room beside them.
            let mut drawn = drawn;
            drawn.sort_by(|a, b| b.0.total_cmp(&a.0));
            for &(px, py, label) in &drawn {
                let Some((at_x, at_y)) = free_place(px, py, label, taken) else { continue };
                let width = width_of(label);
                let near = at_x.max(px.min(at_x + width));
                if (near - px).abs() > 12.0 || (at_y - 4.0 - py).abs() > 14.0 {
                    let foot = if at_y > py { at_y - 11.0 } else { at_y + 1.0 };
                    let _ = write!(
                        svg,
                        "<path class=\"g\" d=\"M{px:.1} {py:.1}L{near:.1} {foot:.1}\"/>"
                    );
                }
                let label = escape_html(label);
                let _ =
                    write!(svg, "<text x=\"{at_x:.1}\" y=\"{at_y:.1}\" class=\"l\">{label}</text>");
            }
        }
    }
}

/// About the width of a label; fonts differ.
fn width_of(label: &str) -> f64 {
    6.6 * label.chars().count() as f64
}

/// A place for a label near a dot that covers nothing, if there is one: without, the label shows
/// only where somebody points at the dot.
fn free_place(px: f64, py: f64, label: &str, taken: &mut Boxes) -> Option<(f64, f64)> {
    let width = width_of(label);
    let fits = |&(x, y): &(f64, f64)| {
        let (l, t, r, b) = (x - 1.0, y - 10.0, x + width + 1.0, y + 3.0);
        l >= LEFT
            && r <= WIDTH - 2.0
            && t >= TOP - 8.0
            && b <= HEIGHT - BOTTOM + 2.0
            && taken.iter().all(|o| l > o[2] || r < o[0] || t > o[3] || b < o[1])
    };
    let (right, left, middle) = (px + 7.0, px - 9.0 - width, px - width / 2.0);
    let places = (0..16).flat_map(|away| {
        let by = 7.0 * f64::from(away);
        let (up, down) = (py + 4.0 - by, py + 4.0 + by);
        let sides = [(right, up), (left, up), (right, down), (left, down)];
        let beside = [(middle, up - 10.0), (middle, down + 10.0)];
        // Further out to either side where there is a crowd.
        let out = [(right + 2.0 * by, up), (left - 2.0 * by, up)];
        sides.into_iter().chain(beside).chain(out)
    });
    let (x, y) = places.into_iter().find(fits)?;
    taken.push([x - 1.0, y - 10.0, x + width + 1.0, y + 3.0]);
    Some((x, y))
}

/// The points that no other beats in both: least y for their x, x being better the larger.
pub fn front(points: &[Point]) -> Vec<Point> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| b.x.total_cmp(&a.x).then(a.y.total_cmp(&b.y)));
    let mut front: Vec<Point> = Vec::new();
    for point in sorted {
        if front.last().is_none_or(|best| point.y < best.y) {
            front.push(point.clone());
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point { x, y, label: format!("<{x}>") }
    }

    #[test]
    fn the_front_holds_what_nothing_beats_in_both() {
        let points = [point(1.0, 0.5), point(2.0, 0.6), point(1.5, 0.7), point(3.0, 0.9)];
        let xs: Vec<f64> = front(&points).iter().map(|p| p.x).collect();
        assert_eq!(xs, [3.0, 2.0, 1.0]);
    }

    #[test]
    fn labels_touch_neither_each_other_nor_the_edge() {
        let mut taken = Vec::new();
        let (mut shown, mut boxes): (usize, Boxes) = (0, Vec::new());
        for i in 0..40u32 {
            // A crowd, part of it at the right edge.
            let px = if i % 2 == 0 { 400.0 } else { WIDTH - 30.0 } + f64::from(i % 7);
            let label = format!("method-{i}");
            let Some((x, y)) = free_place(px, 200.0 + f64::from(i), &label, &mut taken) else {
                continue;
            };
            let own = [x, y - 9.0, x + width_of(&label), y + 2.0];
            assert!(own[0] >= LEFT && own[2] <= WIDTH && own[3] <= HEIGHT - BOTTOM + 2.0);
            let apart =
                |o: &[f64; 4]| own[0] > o[2] || own[2] < o[0] || own[1] > o[3] || own[3] < o[1];
            assert!(boxes.iter().all(apart), "{label}");
            boxes.push(own);
            shown += 1;
        }
        assert!(shown > 20, "{shown}");
    }

    #[test]
    fn every_mark_and_odd_values_give_whole_svg() {
        for mark in [Mark::Line, Mark::Dot, Mark::Bar, Mark::Dashed] {
            for values in
                [vec![], vec![point(1.0, 1.0)], vec![point(f64::NAN, 0.0), point(-1.0, 2.0)]]
            {
                for log in [false, true] {
                    let curve = Curve { name: "a & b".into(), mark, points: values.clone() };
                    let axis = |label: &str| Axis { label: label.into(), log, names: vec![] };
                    let plot =
                        Plot { title: "t".into(), x: axis("x"), y: axis("y"), curves: vec![curve] };
                    let svg = plot.to_svg();
                    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
                    assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("a & b"));
                }
            }
        }
    }
}
