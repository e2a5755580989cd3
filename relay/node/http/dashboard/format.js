// Numbers as people read them.

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) {
    count /= 1024;
    at += 1;
  }
  return `${at === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[at]}`;
}

export const number = (count) => Math.round(count).toLocaleString("en");

export const rate = (count) => `${count < 10 && count > 0 ? count.toFixed(1) : number(count)} msg/s`;

// A duration of the last seconds, or of many days.
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, steps.findIndex(([length]) => seconds >= length));
  const [length, name] = steps[first];
  const whole = Math.floor(seconds / length);
  if (first === steps.length - 1) return `${whole} s`;
  const [less, lessName] = steps[first + 1];
  return `${whole} ${name} ${Math.floor((seconds - whole * length) / less)} ${lessName}`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
