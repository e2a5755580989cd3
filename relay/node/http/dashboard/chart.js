// A small live chart: up to two minutes of one number, with its scale and time, the value under the pointer, and in words.

import { drawn, element, say } from "./dom.js";

const SAMPLES_MAX = 120;
const SAMPLES_MIN = 30;
const [WIDTH, HEIGHT] = [240, 56];

export class Chart {
  // `format` makes text with the unit of a value; `floor` is the least value at the top, so that noise is no mountain.
  constructor(title, format, floor) {
    this.samples = [];
    this.title = title;
    this.format = format;
    this.floor = floor;
    this.pointed = null;
    this.area = drawn("path", { class: "area" });
    this.curve = drawn("path", { class: "curve" });
    this.mark = drawn("path", { class: "mark" });
    const shape = { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" };
    this.svg = drawn("svg", shape, this.area, this.curve, this.mark);
    this.value = element("output", { "aria-live": "off" }, "–");
    this.top = element("span", { class: "top" });
    this.begin = element("span");
    this.figure = element(
      "figure",
      {},
      element("figcaption", {}, element("span", {}, title), this.value),
      element("div", { class: "plot" }, this.top, this.svg),
      element("div", { class: "axis", "aria-hidden": "true" }, this.begin, element("span", {}, "now")),
    );
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  add(value, isHigh = false) {
    this.samples.push(value);
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
    this.figure.classList.toggle("high", isHigh);
    const most = Math.max(...this.samples);
    const top = Math.max(this.floor, most) * 1.1;
    const left = WIDTH - (this.samples.length - 1) * this.step();
    const points = this.samples.map((each, at) => `${(left + at * this.step()).toFixed(1)},${(HEIGHT - (each / top) * HEIGHT).toFixed(1)}`);
    this.curve.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M${left.toFixed(1)},${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
    say(this.top, this.format(top));
    say(this.begin, `${Math.max(this.samples.length, SAMPLES_MIN)} s ago`);
    this.svg.setAttribute("aria-label", `${this.title}: ${this.format(value)} now, at most ${this.format(most)} in ${this.samples.length} s`);
    this.show();
  }

  step() {
    return WIDTH / (Math.max(this.samples.length, SAMPLES_MIN) - 1);
  }

  point(event) {
    const bounds = this.svg.getBoundingClientRect();
    this.pointed = event && Math.round(((bounds.right - event.clientX) / bounds.width) * (WIDTH / this.step()));
    this.show();
  }

  // Shows the sample under the pointer, or the newest one.
  show() {
    const ago = this.pointed !== null && this.pointed < this.samples.length ? Math.max(0, this.pointed) : 0;
    const value = this.samples.at(-1 - ago);
    if (value !== undefined) say(this.value, ago ? `${this.format(value)}, ${ago} s ago` : this.format(value));
    this.mark.setAttribute("d", ago ? `M${WIDTH - ago * this.step()},0V${HEIGHT}` : "");
  }
}
