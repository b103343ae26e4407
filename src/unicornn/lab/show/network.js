"use strict";
// The network: Eq. (6) on the layer's grid, forwards and backwards, and what is read off it.

const numbers = text => new Float32Array(Uint8Array.from(atob(text), each => each.charCodeAt(0)).buffer);

class Network {
  constructor(data) {
    Object.assign(this, data);
    this.layers = data.layers.map(layer => ({
      ...layer, w: numbers(layer.w), V: numbers(layer.V), b: numbers(layer.b), a: Float64Array.from(layer.a),
      Lambda: layer.Lambda === null ? null : numbers(layer.Lambda),
    }));
    this.W = numbers(data.readout.weight);
    this.bias = numbers(data.readout.bias);
    this.m = this.layers[0].w.length;
  }

  load(sample) {
    this.u = numbers(sample.u);
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

  input(n) {  // of step n, counted from 0: a patch of samples, zero beyond the end
    const width = this.d * this.patch, at = n * width;
    return Float64Array.from({length: width}, (_, i) => this.u[at + i] || 0);
  }

  rounded(x) { return Math.round(x / this.unit) * this.unit; }

  drive(l, below) {  // V y + Λ y' + b
    const layer = this.layers[l], x = new Float64Array(this.m);
    const add = (V, y) => {
      for (let j = 0; j < this.m; j++) {
        let s = 0;
        for (let i = 0, o = j * y.length; i < y.length; i++) s += V[o + i] * y[i];
        x[j] += s;
      }
    };
    add(layer.V, below[l]);
    if (layer.Lambda) add(layer.Lambda, below[l - this.skip_layers]);
    return x.map((v, j) => v + layer.b[j]);
  }

  force(l, x, j) { return Math.tanh(this.layers[l].w[j] * this.y[l][j] + x[j]) + this.alpha * this.y[l][j]; }

  step() {
    const below = [this.input(this.n)];
    for (let l = 0; l < this.layers.length; l++) {
      const x = this.drive(l, below), a = this.layers[l].a, y = this.y[l], z = this.z[l];
      for (let j = 0; j < this.m; j++) {
        z[j] -= this.rounded(a[j] * this.force(l, x, j));
        y[j] += this.rounded(a[j] * z[j]);
      }
      below.push(y);
    }
    this.n++;
    const top = this.y[this.layers.length - 1];
    this.sum.forEach((_, j) => this.sum[j] += top[j]);
    if (this.atCut()) {
      this.cuts.push({energies: this.energies(), y: this.y, z: this.z});
      if (this.segment_start === "rest") this.stop();
    }
  }

  undo() {
    if (this.atCut()) ({y: this.y, z: this.z} = this.cuts.pop());
    const top = this.y[this.layers.length - 1];
    this.sum.forEach((_, j) => this.sum[j] -= top[j]);
    this.n--;
    const below = [this.input(this.n)];
    for (let l = 0; l < this.layers.length; l++) {
      const a = this.layers[l].a, y = this.y[l], z = this.z[l], after = Float64Array.from(y);
      const x = this.drive(l, below);
      for (let j = 0; j < this.m; j++) {
        y[j] -= this.rounded(a[j] * z[j]);
        z[j] += this.rounded(a[j] * this.force(l, x, j));
      }
      below.push(after);
    }
  }

  atCut() {  // whether a segment ends after the steps so far; the last one ends with the sequence
    for (let i = 1; i < this.segments; i++) if (this.n === Math.floor(this.N * i / this.segments)) return true;
    return false;
  }

  energy(l, j) {  // Eq. (4) without input
    const w = this.layers[l].w[j], y = this.y[l][j], z = this.z[l][j], t = Math.abs(w * y);
    const slope = t < 0.03 ? w * y / 2 * (1 - t ** 2 / 6 + 2 * t ** 4 / 45)
      : (t + Math.log1p(Math.expm1(-2 * t) / 2)) / (w * y);
    return z * z / 2 + this.alpha / 2 * y * y + slope * y;
  }

  energies() {
    const all = [];
    for (let l = 0; l < this.layers.length; l++)
      for (let j = 0; j < this.m; j++) all.push(Math.log(this.energy(l, j) ** 2 + this.small ** 2) / 2);
    return all;
  }

  pooled(pieces) {
    if (this.segment_pool === "concat") return pieces.flat();
    const over = f => pieces[0].map((_, k) => pieces.reduce((s, piece) => s + f(piece[k], k), 0) / pieces.length);
    const mean = over(E => E);
    if (this.segment_pool === "mean") return mean;
    return [...mean, ...over((E, k) => (E - mean[k]) ** 2).map(v => Math.sqrt(v + this.small))];
  }

  standardised(own, {mean, variance, eps}) {  // a segment that has not come yet counts as the mean
    return mean.map((centre, k) => k < own.length ? (own[k] - centre) / Math.sqrt(variance[k] + eps) : 0);
  }

  features() {
    const top = this.y[this.layers.length - 1], found = [];
    for (const name of this.readouts) {
      if (name === "last") found.push(...top);
      if (name === "mean") found.push(...this.sum.map(v => v / Math.max(this.n, 1)));
      if (name === "energy") {
        const pieces = this.cuts.map(cut => cut.energies);
        if (!this.atCut()) pieces.push(this.energies());
        found.push(...this.standardised(this.pooled(pieces), this.standardise));
      }
      if (name === "state") {
        const state = [...this.y, ...this.z].flatMap(each => Array.from(each));
        found.push(...this.standardised(state, this.standardise_state));
      }
    }
    return found;
  }

  output() {
    const x = this.features();
    return Array.from(this.bias, (b, k) => {
      let s = b;
      for (let i = 0; i < x.length; i++) s += this.W[k * x.length + i] * x[i];
      return this.centre + this.scale * s;
    });
  }
}

function probabilities(logits) {
  const top = Math.max(...logits), e = logits.map(v => Math.exp(v - top)), total = e.reduce((a, b) => a + b);
  return e.map(v => v / total);
}
