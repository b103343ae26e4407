"use strict";
// The network: Eq. (6) on the layer's grid, forwards and backwards, its energies and its readouts.

const floats = text => new Float32Array(Uint8Array.from(atob(text), each => each.charCodeAt(0)).buffer);

// The features of each readout, before they are standardised.
const READOUTS = {
  last: network => [...network.top()],
  mean: network => Array.from(network.sum, v => v / Math.max(network.n, 1)),
  energy: (network, {pool}) => network.pooledEnergies(pool),
  state: network => [...network.y, ...network.z].flatMap(each => [...each]),
};

class Network {
  constructor(data) {
    const dense = ({weight, bias}) => ({weight: floats(weight), bias: floats(bias)});
    Object.assign(this, data, {head: data.head.map(dense)});
    this.layers = data.layers.map(layer => ({
      w: floats(layer.w), V: floats(layer.V), b: floats(layer.b), a: Float64Array.from(layer.a),
      Lambda: layer.Lambda === null ? null : floats(layer.Lambda),
    }));
    this.m = this.layers[0].w.length;
  }

  start(sample) {
    this.u = floats(sample.u);
    this.N = Math.ceil(sample.length / this.patch);
    this.rest();
  }

  rest() {
    this.n = 0;
    this.stop();
    this.sum = new Float64Array(this.m);
    this.cuts = [];
  }

  stop() {  // all oscillators at rest
    this.y = this.layers.map(() => new Float64Array(this.m));
    this.z = this.layers.map(() => new Float64Array(this.m));
  }

  top() { return this.y[this.layers.length - 1]; }

  input(n) {  // input of step n, counted from 0: a patch of samples, zero beyond the end
    const width = this.d * this.patch, at = n * width;
    return Float64Array.from({length: width}, (_, i) => this.u[at + i] || 0);
  }

  rounded(x) { return Math.round(x / this.unit) * this.unit; }

  drive(l, below) {  // V y + Λ y' + b
    const layer = this.layers[l], x = Float64Array.from(layer.b);
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

  step() {
    const below = [this.input(this.n)];
    this.layers.forEach(({a}, l) => {
      const x = this.drive(l, below), y = this.y[l], z = this.z[l];
      for (let j = 0; j < this.m; j++) {
        z[j] -= this.rounded(a[j] * this.force(l, x, j));
        y[j] += this.rounded(a[j] * z[j]);
      }
      below.push(y);
    });
    this.n++;
    this.top().forEach((v, j) => this.sum[j] += v);
    if (this.atCut()) {
      this.cuts.push({energies: this.logEnergies(), y: this.y, z: this.z});
      if (this.from_rest) this.stop();
    }
  }

  undo() {
    if (this.atCut()) ({y: this.y, z: this.z} = this.cuts.pop());
    this.top().forEach((v, j) => this.sum[j] -= v);
    this.n--;
    const below = [this.input(this.n)];
    this.layers.forEach(({a}, l) => {
      const x = this.drive(l, below), y = this.y[l], z = this.z[l];
      below.push(Float64Array.from(y));
      for (let j = 0; j < this.m; j++) {
        y[j] -= this.rounded(a[j] * z[j]);
        z[j] += this.rounded(a[j] * this.force(l, x, j));
      }
    });
  }

  atCut() {  // whether a segment other than the last ends after the steps so far
    for (let i = 1; i < this.segments; i++) if (this.n === Math.floor(this.N * i / this.segments)) return true;
    return false;
  }

  energy(l, j) {  // Eq. (4) without input
    const w = this.layers[l].w[j], y = this.y[l][j], z = this.z[l][j], t = Math.abs(w * y);
    const slope = t < 0.03 ? w * y / 2 * (1 - t ** 2 / 6 + 2 * t ** 4 / 45)
      : (t + Math.log1p(Math.expm1(-2 * t) / 2)) / (w * y);
    return z * z / 2 + this.alpha / 2 * y * y + slope * y;
  }

  logEnergies() {
    return this.y.flatMap((each, l) => Array.from(each, (_, j) => Math.log(this.energy(l, j) ** 2 + this.small ** 2) / 2));
  }

  pooledEnergies(pool) {  // of the segments so far; with "concat", those to come are undefined
    const segments = this.cuts.map(cut => cut.energies);
    if (!this.atCut()) segments.push(this.logEnergies());
    if (pool === "concat") return Array.from({length: this.segments}, (_, k) => segments[k] ?? segments[0].map(() => undefined)).flat();
    const average = f => segments[0].map((_, k) => segments.reduce((s, each) => s + f(each[k], k), 0) / segments.length);
    const mean = average(E => E);
    if (pool === "mean") return mean;
    return [...mean, ...average((E, k) => (E - mean[k]) ** 2).map(v => Math.sqrt(v + this.small))];
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
