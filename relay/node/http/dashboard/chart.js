// A small live chart: the last two minutes of one number, as a curve, and in words for those who do not see it.

import { drawn, element, say } from "./dom.js";

const SAMPLES_MAX = 120;
const [WIDTH, HEIGHT] = [240, 56];

export class Chart {
  // `format` makes text of a value; `floor` is the least value at the top, so that noise does not look like a mountain.
  constructor(title, format, floor) {
    this.samples = [];
    this.title = title;
    this.format = format;
    this.floor = floor;
    this.area = drawn("path", { class: "area" });
    this.curve = drawn("path", { class: "curve" });
    this.svg = drawn(
      "svg",
      { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      this.area,
      this.curve,
    );
    this.value = element("output", { "aria-live": "off" }, "–");
    this.figure = element("figure", {}, element("figcaption", {}, element("span", {}, title), this.value), this.svg);
  }

  add(value, isHigh = false) {
    this.samples.push(value);
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
    say(this.value, this.format(value));
    this.figure.classList.toggle("high", isHigh);
    const most = Math.max(...this.samples);
    const top = Math.max(this.floor, most) * 1.1;
    const step = WIDTH / (SAMPLES_MAX - 1);
    const left = WIDTH - (this.samples.length - 1) * step;
    const points = this.samples.map((each, at) => `${(left + at * step).toFixed(1)},${(HEIGHT - (each / top) * HEIGHT).toFixed(1)}`);
    this.curve.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M${left.toFixed(1)},${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
    this.svg.setAttribute("aria-label", `${this.title}: ${this.format(value)} now, at most ${this.format(most)} in ${this.samples.length} s`);
  }
}
