//! Line plots as SVG: one x axis, one y axis from zero, some lines.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
/// Told apart also by who sees few colours.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Name and unit.
    pub x: String,
    /// Name and unit.
    pub y: String,
    /// The x axis is logarithmic.
    pub is_log_x: bool,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Plot {
    /// The plot as a file.
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x_of = |x: f64| if self.is_log_x { x.max(1e-12).log10() } else { x };
        let (mut x_least, mut x_most) = (f64::INFINITY, f64::NEG_INFINITY);
        for &(x, _) in points() {
            (x_least, x_most) = (x_least.min(x_of(x)), x_most.max(x_of(x)));
        }
        if !self.is_log_x {
            x_least = x_least.min(0.0);
        }
        if x_most <= x_least || !x_least.is_finite() {
            (x_least, x_most) = (x_least.min(0.0), x_least.max(0.0) + 1.0);
        }
        let (x_least, x_most) = if x_least.is_finite() { (x_least, x_most) } else { (0.0, 1.0) };
        let y_step = step(points().map(|&(_, y)| y).fold(0.0, f64::max));
        let y_most = y_step * 5.0;
        let place = |x: f64, y: f64| {
            let across = (x_of(x) - x_least) / (x_most - x_least);
            (
                LEFT + across * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y / y_most * (HEIGHT - TOP - BOTTOM),
            )
        };

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        text(&mut svg, WIDTH / 2.0, 22.0, "middle", &self.title);
        text(&mut svg, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14.0, "middle", &self.x);
        let _ = writeln!(
            svg,
            "<text x=\"18\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {y})\">{}</text>",
            escaped(&self.y),
            y = f64::midpoint(TOP, HEIGHT - BOTTOM)
        );
        for tick in 0..=5 {
            let y = f64::from(tick) * y_step;
            let (_, at) = place(0.0, y);
            let end = WIDTH - RIGHT;
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>"
            );
            text(&mut svg, LEFT - 6.0, at + 4.0, "end", &short(y));
        }
        let mut ticks: Vec<f64> = points().map(|&(x, _)| x).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let every = ticks.len().div_ceil(8).max(1);
        for &x in ticks.iter().step_by(every) {
            let (at, _) = place(x, 0.0);
            text(&mut svg, at, HEIGHT - BOTTOM + 18.0, "middle", &short(x));
        }
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let path: Vec<_> = line
                .points
                .iter()
                .map(|&(x, y)| place(x, y))
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            for point in &path {
                let (x, y) = point.split_once(',').unwrap_or_default();
                let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
            }
            let at = TOP + 18.0 * (number as f64 + 1.0);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{at}\" fill=\"{colour}\">{}</text>",
                WIDTH - RIGHT + 12.0,
                escaped(&line.name)
            );
        }
        svg += "</svg>\n";
        svg
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(content)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A round fifth of an axis that holds `most`.
fn step(most: f64) -> f64 {
    let least = (most / 5.0).max(1e-9);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(power * 10.0)
}

/// A number with a unit's prefix.
fn short(value: f64) -> String {
    let (value, prefix) = match value.abs() {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let rounded = (value * 100.0).round() / 100.0;
    format!("{rounded}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_lines_and_axes() {
        let plot = Plot {
            title: "Rate < limit".into(),
            x: "flows".into(),
            y: "packets/s".into(),
            is_log_x: true,
            lines: vec![Line { name: "no drop".into(), points: vec![(1e3, 20e6), (1e6, 10e6)] }],
        };
        let svg = plot.to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("Rate &lt; limit") && svg.contains(">no drop</text>"));
        assert!(svg.contains("<polyline points=\"80.0,104.8 570.0,234.4\""), "{svg}");
        for tick in [">1k<", ">1M<", ">20M<", ">0<"] {
            assert!(svg.contains(tick), "{tick}: {svg}");
        }
    }

    #[test]
    fn a_plot_of_nothing_or_of_one_point_is_a_plot() {
        for points in [vec![], vec![(5.0, 0.0)], vec![(0.0, 1.0)]] {
            for is_log_x in [false, true] {
                let lines = vec![Line { name: "a".into(), points: points.clone() }];
                let (x, y) = (String::new(), String::new());
                let svg = Plot { title: String::new(), x, y, is_log_x, lines }.to_svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn steps_are_round() {
        for (most, expected) in [(10.0, 2.0), (11.0, 2.5), (49.0, 10.0), (0.5, 0.1)] {
            assert!((step(most) - expected).abs() < 1e-12, "{most}: {}", step(most));
        }
    }
}
