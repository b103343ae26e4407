// A fitted bank of oscillators: energies at the ends of windows, pooled over a series, and a linear map to the classes.
// Needs Layers of network.js. bank.predict(series) are the probabilities of bank.classes for a series [[x, …], …], one
// row of numbers per step.

const GROUP = 8, TIE = 1e-3;  // neighbours that compete, and differences that count as none
const mean = values => values.reduce((s, v) => s + v, 0) / values.length;
const meanSquare = (values, centre) => values.reduce((s, v) => s + (v - centre) ** 2, 0) / values.length;

class Bank {
  constructor(data) {
    Object.assign(this, data);
    this.coefficients = floats(data.coefficients);
    for (const name of ["centre", "scale"]) this[name] = new Float64Array(floats(data[name]).buffer);
    this.views = data.views.map(view => ({
      ...view, oscillators: new Layers(view), levels: view.levels.map(floats), middle: floats(view.middle),
      units: view.competes ? floats(view.units) : null,
    }));
  }

  predict(series) {
    const scores = this.scores(series), top = Math.max(...scores);
    const shares = scores.map(s => Math.exp(this.temperature * (s - top))), total = shares.reduce((s, v) => s + v);
    return shares.map(v => (1 - this.doubt) * v / total + this.doubt / shares.length);
  }

  scores(series) {
    const F = this.features(series), scores = Array.from(this.intercept), k = scores.length;
    F.forEach((f, i) => {
      const z = Math.min(this.clip, Math.max(-this.clip, (f - this.centre[i]) * this.scale[i]));
      for (let j = 0; j < k; j++) scores[j] += z * this.coefficients[i * k + j];
    });
    return scores;
  }

  features(series) {
    const channels = this.channels(series);
    const statistics = channels.map(x => summary(x));
    return Float32Array.from([
      ...this.views.flatMap(view => pools(view, quantities(view, channels))),
      ...this.statistics.flatMap(name => statistics.map(each => each[name])),
    ]);
  }

  channels(series) {  // standardised, each an array of all steps
    const d = this.deviation.length, row = Array.from(series).findIndex(each => each?.length !== d || !Array.from(each).every(Number.isFinite));
    if (!series.length || row >= 0) throw new Error(`series: expected rows of ${d} finite numbers, got ${series.length ? `[${series[row]}] as row ${row}` : "none"}`);
    return this.deviation.map((deviation, c) => {
      let x = Array.from(series, each => each[c]);
      if (this.own_scale) {
        const m = mean(x), s = Math.sqrt(meanSquare(x, m));
        x = x.map(v => Math.fround((v - m) / (s <= 1e-12 * Math.abs(m) ? 1 : s)));
      }
      return Float32Array.from(x, v => (v - this.mean[c]) / deviation);
    });
  }
}

function inputs({kind, pace, deviation}, channels) {  // of the oscillators, one row per sample
  const N = channels[0].length, n = Math.max(1, Math.floor(N / pace)), width = Math.min(pace, N);
  const columns = channels.map((x, c) => {
    const scale = 1 / deviation[c] / (kind === "scaled_increments" ? Math.sqrt(meanSquare(x, mean(x))) + 1e-6 : 1);
    const level = Array.from({length: n}, (_, i) => mean(x.subarray(i * width, (i + 1) * width)));
    return level.map((v, i) => Math.fround(scale * (kind.endsWith("increments") ? v - level[Math.max(0, i - 1)] : v)));
  });
  return Array.from({length: n}, (_, i) => columns.map(column => column[i]));
}

function quantities(view, channels) {  // of every window
  const u = inputs(view, channels), length = Math.min(u.length, view.W), last = u.length - length;
  const count = 1 + (view.aligned ? Math.ceil : Math.floor)(last / view.hop);
  return Array.from({length: count}, (_, k) => {
    const start = Math.min(k * view.hop, last);
    let window = u.slice(start, start + length);
    if (view.kind === "shape") {
      const average = channels.map((_, c) => mean(window.map(row => row[c])));
      window = window.map(row => row.map((v, c) => v - average[c]));
    }
    view.oscillators.stop();
    for (const row of window) view.oscillators.advance(row);
    return Float32Array.from(view.pairs ? pairs(view) : singles(view));
  });
}

function singles({oscillators, phases, margin}) {
  const energies = Array.from(oscillators.y[0], (_, j) => Math.log(oscillators.energy(0, j) + margin));
  return phases ? [...oscillators.y[0], ...energies] : energies;
}

function pairs({oscillators, margin}) {  // which of two channels leads, and how much they agree
  const {y: [y], z: [z], layers: [{w}], alpha, m} = oscillators, half = m / 2, lead = [], together = [];
  for (let i = 0, j = half; i < half; i++, j++) {
    const total = oscillators.energy(0, i) + oscillators.energy(0, j) + margin, square = alpha + w[i];
    lead.push(Math.sqrt(square) * (y[i] * z[j] - y[j] * z[i]) / total);
    together.push((z[i] * z[j] + square * y[i] * y[j]) / total);
  }
  return [...lead, ...together];
}

function pools({pairs, phases, levels, middle, units, oscillators: {m}}, windows) {
  const n = windows.length, F = middle.length, first = phases ? m : 0;
  const columns = Array.from({length: F}, (_, i) => Float64Array.from(windows, each => each[i]));
  const energies = columns.slice(first), means = columns.map(mean);
  const deviations = energies.map((x, i) => {
    const square = meanSquare(x, 0), variance = meanSquare(x, means[first + i]);
    return variance > 1e-10 * square ? Math.sqrt(variance) : 0;  // smaller ones are rounding errors
  });
  const above = level => energies.map((x, i) => mean(x.map(v => v > level[first + i])));
  const crossings = energies.map((x, i) => {
    const crossed = x.filter((v, k) => k && (v > middle[first + i]) !== (x[k - 1] > middle[first + i]));
    return crossed.length / Math.max(n - 1, 1);
  });
  const span = Math.sqrt(Math.max(n * n - 1, 1) / 12);
  const trends = pairs ? [] : energies.map((x, i) => deviations[i] && mean(x.map((v, k) => (k - (n - 1) / 2) * v)) / span);
  const extremes = sign => columns.map(x => sign * x.reduce((s, v) => Math.max(s, sign * v), -Infinity));
  const contests = units ? compete(energies.map((x, i) => x.map(v => (v - middle[first + i]) * units[first + i])), n) : [];
  return [...means, ...extremes(1), ...extremes(-1), ...deviations, ...levels.flatMap(above), ...crossings, ...trends, ...contests];
}

function compete(x, n) {  // shares of windows in which each wins and loses its group, and mean of the values won
  const wins = x.map(() => 0), losses = x.map(() => 0), won = x.map(() => 0);
  for (let start = 0; start < x.length; start += GROUP) {
    const group = x.slice(start, start + GROUP);
    for (let k = 0; k < n; k++) {
      const values = group.map(each => each[k]), highest = Math.max(...values), lowest = Math.min(...values);
      const high = start + values.findIndex(v => v >= highest - TIE), low = start + values.findIndex(v => v <= lowest + TIE);
      wins[high] += 1 / n;
      losses[low] += 1 / n;
      won[high] += highest / n;
    }
  }
  return [...wins, ...losses, ...won];
}

function summary(x) {  // statistics of a channel
  const N = x.length, last = Math.max(N - 1, 1), sorted = Float64Array.from(x).sort(), average = mean(x);
  const quantile = q => {
    const at = q * (N - 1), i = Math.floor(at);
    return sorted[i] + (at - i) * (sorted[Math.min(i + 1, N - 1)] - sorted[i]);
  };
  return {
    mean: average, deviation: Math.sqrt(meanSquare(x, average)), min: sorted[0], max: sorted[N - 1], first: x[0], last: x[N - 1],
    lower_quartile: quantile(0.25), median: quantile(0.5), upper_quartile: quantile(0.75),
    trend: x.reduce((s, v, k) => s + (k - (N - 1) / 2) / last * (v - average), 0) / N,
    mean_increment: x.reduce((s, v, k) => k ? s + Math.abs(v - x[k - 1]) : 0, 0) / last,
    min_at: x.indexOf(sorted[0]) / last, max_at: x.indexOf(sorted[N - 1]) / last,
  };
}
