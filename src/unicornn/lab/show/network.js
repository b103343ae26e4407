"use strict";
// The network: Eq. (6) on the layer's grid, forwards and backwards, its energies, frames of
// energies, and its readouts.

const floats = text => new Float32Array(Uint8Array.from(atob(text), each => each.charCodeAt(0)).buffer);

// The features of each readout, before they are standardised.
const READOUTS = {
  last: network => [...network.top()],
  mean: network => Array.from(network.sum, v => v / Math.max(network.n, 1)),
  max: network => network.largest[network.n],
  energy: (network, {pool}) => network.pooledEnergies(pool),
  input: network => network.inputMoments(),
  state: network => [...network.y, ...network.z].flatMap(each => [...each]),
};

class Layers {
  constructor(data) {
    Object.assign(this, data, {
      layers: data.layers.map(layer => ({
        w: floats(layer.w), V: floats(layer.V), b: floats(layer.b), a: Float64Array.from(layer.a),
        Lambda: layer.Lambda === null ? null : floats(layer.Lambda),
      })),
    });
    this.m = this.layers[0].w.length;
    this.stop();
  }

  stop() {  // all oscillators at rest
    this.y = this.layers.map(() => new Float64Array(this.m));
    this.z = this.layers.map(() => new Float64Array(this.m));
  }

  top() { return this.y[this.layers.length - 1]; }

  rounded(x) { return Math.round(x / this.unit) * this.unit; }

  drive(l, below) {  // V y + Λ y' + b
    const layer = this.layers[l], x = new Float64Array(layer.b);
    const add = (V, y) => {
      for (let j = 0; j < this.m; j++) {
        let s = 0;
        for (let i = 0, o = j * y.length; i < y.length; i++) s += V[o + i] * y[i];
        x[j] += s;
      }
    };
    add(layer.V, below[l]);
    if (layer.Lambda) add(layer.Lambda, below[l - this.skip_layers]);
    return x;
  }

  force(l, x, j) { return Math.tanh(this.layers[l].w[j] * this.y[l][j] + x[j]) + this.alpha * this.y[l][j]; }

  advance(input) {
    const below = [input];
    this.layers.forEach(({a}, l) => {
      const x = this.drive(l, below), y = this.y[l], z = this.z[l];
      for (let j = 0; j < this.m; j++) {
        z[j] -= this.rounded(a[j] * this.force(l, x, j));
        y[j] += this.rounded(a[j] * z[j]);
      }
      below.push(y);
    });
  }

  retreat(input) {
    const below = [input];
    this.layers.forEach(({a}, l) => {
      const x = this.drive(l, below), y = this.y[l], z = this.z[l];
      below.push(Float64Array.from(y));
      for (let j = 0; j < this.m; j++) {
        y[j] -= this.rounded(a[j] * z[j]);
        z[j] += this.rounded(a[j] * this.force(l, x, j));
      }
    });
  }

  energy(l, j) {  // Eq. (4) without input
    const w = this.layers[l].w[j], y = this.y[l][j], z = this.z[l][j], t = Math.abs(w * y);
    const slope = t < 0.03 ? w * y / 2 * (1 - t ** 2 / 6 + 2 * t ** 4 / 45)
      : (t + Math.log1p(Math.expm1(-2 * t) / 2)) / (w * y);
    return z * z / 2 + this.alpha / 2 * y * y + slope * y;
  }

  logEnergies(floor) {
    return this.y.flatMap((each, l) => Array.from(each, (_, j) => Math.log(this.energy(l, j) ** 2 + floor ** 2) / 2));
  }
}

class Frames {  // standardised log energies at the end of every hop
  constructor(data) {
    Object.assign(this, data, {resolutions: data.resolutions.map(each => new Layers(each))});
  }

  energies(signal, end) {  // of the frames that end with step ``end``, counted from 1
    const silence = new Float64Array(signal[0].length);
    return this.resolutions.flatMap((layers, r) => {
      layers.stop();
      for (let n = end - this.length[r]; n < end; n++) layers.advance(signal[n] ?? silence);
      return layers.logEnergies(this.floor);
    });
  }

  of(signal) {
    const rows = Array.from({length: Math.ceil(signal.length / this.hop)}, (_, i) => this.energies(signal, (i + 1) * this.hop));
    const average = rows[0].map((_, k) => this.centred ? rows.reduce((s, row) => s + row[k], 0) / rows.length : 0);
    return rows.map(row => row.map((E, k) => (E - average[k] - this.centre[k]) * this.scale[k]));
  }
}

class Network extends Layers {
  constructor(data) {
    super(data);
    this.head = data.head.map(({weight, bias}) => ({weight: floats(weight), bias: floats(bias)}));
    this.levels = data.levels.map(level => new Frames(level));
    this.stride = this.levels.reduce((s, level) => s * level.hop, this.patch);  // samples of a step
  }

  start(sample) {
    this.u = floats(sample.u);
    this.seen = [this.patches(sample.length)];  // the signal, then the features of each level of frames
    for (const level of this.levels) this.seen.push(level.of(this.seen.at(-1)));
    this.inputs = this.seen.at(-1);
    this.N = this.inputs.length;
    this.rest();
  }

  patches(length) {  // inputs of all steps: patches of samples, zero beyond the end
    const width = this.d * this.patch;
    const patch = n => Float64Array.from({length: width}, (_, i) => this.u[n * width + i] || 0);
    return Array.from({length: Math.ceil(length / this.patch)}, (_, n) => patch(n));
  }

  rest() {
    this.n = 0;
    this.stop();
    this.sum = new Float64Array(this.m);
    this.largest = [new Array(this.m).fill(0)];  // after each step
    this.cuts = [];
  }

  step() {
    this.advance(this.inputs[this.n]);
    this.n++;
    this.top().forEach((v, j) => this.sum[j] += v);
    this.largest.push(this.largest[this.n - 1].map((v, j) => Math.max(v, Math.abs(this.top()[j]))));
    if (this.atCut()) {
      this.cuts.push({energies: this.logEnergies(this.small), y: this.y, z: this.z});
      if (this.from_rest) this.stop();
    }
  }

  undo() {
    if (this.atCut()) ({y: this.y, z: this.z} = this.cuts.pop());
    this.top().forEach((v, j) => this.sum[j] -= v);
    this.largest.pop();
    this.n--;
    this.retreat(this.inputs[this.n]);
  }

  atCut() {  // whether a segment other than the last ends after the steps so far
    for (let i = 1; i < this.segments; i++) if (this.n === Math.floor(this.N * i / this.segments)) return true;
    return false;
  }

  pooledEnergies(pool) {  // of the segments so far; with "concat", those to come are undefined
    const segments = this.cuts.map(cut => cut.energies);
    if (!this.atCut()) segments.push(this.logEnergies(this.small));
    if (pool === "concat") return Array.from({length: this.segments}, (_, k) => segments[k] ?? segments[0].map(() => undefined)).flat();
    const average = f => segments[0].map((_, k) => segments.reduce((s, each) => s + f(each[k], k), 0) / segments.length);
    const mean = average(E => E);
    if (pool === "mean") return mean;
    return [...mean, ...average((E, k) => (E - mean[k]) ** 2).map(v => Math.sqrt(v + this.small))];
  }

  inputMoments() {  // means, then standard deviations, of the inputs so far
    const rows = this.inputs.slice(0, Math.max(this.n, 1));
    const average = f => Array.from(rows[0], (_, k) => rows.reduce((s, row) => s + f(row[k], k), 0) / rows.length);
    const mean = average(v => v);
    return [...mean, ...average((v, k) => (v - mean[k]) ** 2).map(v => Math.sqrt(v + this.spread))];
  }

  output() {
    const raw = this.readouts.flatMap(readout => READOUTS[readout.name](this, readout));
    // A feature of a segment to come counts as its mean.
    const x = raw.map((v, i) => v === undefined ? 0 : (v - this.centre[i]) * this.scale[i]);
    const scores = this.head.reduce((h, layer, i) => product(layer, i ? h.map(v => Math.max(v, 0)) : h), x);
    return scores.map((s, k) => this.mean[k] + this.deviation[k] * s);
  }
}

function product({weight, bias}, x) {
  return Array.from(bias, (b, k) => x.reduce((s, v, i) => s + weight[k * x.length + i] * v, b));
}

function probabilities(logits) {
  const top = Math.max(...logits), e = logits.map(v => Math.exp(v - top)), total = e.reduce((a, b) => a + b);
  return e.map(v => v / total);
}
