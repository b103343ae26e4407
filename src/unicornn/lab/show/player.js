// The page: drawing, controls and playback.

const data = JSON.parse(document.getElementById("data").textContent);
const network = new Network(data.network), classify = data.classes !== null;
const SPEEDS = data.speeds;  // steps per frame
let speed = data.speed, playing = false, direction = 1, credit = 0, pending = 0, sample = data.samples[0];

const heat = share => `hsl(${230 - 200 * share} 75% ${bright()}%)`;

function addCanvas(heading, about, label) {
  const section = document.createElement("section"), title = document.createElement("h2");
  const note = document.createElement("span"), canvas = document.createElement("canvas");
  title.textContent = heading;
  note.textContent = about;
  title.append(note);
  canvas.height = 150;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  section.append(title, canvas);
  $("layers").append(section);
  return canvas;
}
const spectrograms = network.levels.map(({hop, length}, i) => addCanvas(
  i ? "Frames of frames" : "Frames", `energies in frames of ${length.join(" and ")} steps, one every ${hop}; slow oscillators at the bottom`,
  `energies of the frames of level ${i + 1} up to now`));
const canvases = network.layers.map((layer, l) => {
  const slow = Math.min(...layer.a), fast = Math.max(...layer.a);
  return addCanvas(`Layer\u00a0${l + 1}`, `${network.m} oscillators, time steps ${slow.toPrecision(2)} to ${fast.toPrecision(2)}`,
    `positions and energies of layer ${l + 1}`);
});
// Features of a level from the bottom up: each layer's oscillators from slow to fast.
const bands = network.levels.map(({resolutions}) => resolutions.flatMap(({layers, m}, r) => {
  const first = resolutions.slice(0, r).reduce((s, each) => s + each.m * each.layers.length, 0);
  return layers.flatMap(({a}, l) => [...a.keys()].sort((i, j) => a[i] - a[j]).map(j => first + l * m + j));
}));
const order = network.layers.map(layer => [...layer.a.keys()].sort((i, j) => layer.a[i] - layer.a[j]));
const span = network.layers.map(() => 0.1);

data.samples.forEach((each, i) => $("sample").append(new Option(each.name, i)));
const rows = (classify ? data.classes : data.outputs).map(addAnswer);

function drawSignal() {
  const [g, width, height] = context($("signal")), d = network.d, u = network.u, steps = u.length / d;
  const now = Math.min(network.n * network.stride, steps);
  g.globalAlpha = 0.25;
  drawLines(g, width, height, u, d, steps);
  g.globalAlpha = 1;
  drawLines(g, width, height, u, d, now);
  g.fillStyle = colour("--quiet");
  g.fillRect(now / Math.max(steps, 1) * width, 0, 1, height);
}

function drawSpectrogram(i) {
  const [g, width, height] = context(spectrograms[i]), rows = network.seen[i + 1], order = bands[i];
  const now = Math.floor(network.n / network.N * rows.length);
  const colours = Array.from({length: 33}, (_, k) => heat(k / 32));
  for (let n = 0; n < now; n++) {
    order.forEach((k, place) => {
      g.fillStyle = colours[Math.min(32, Math.max(0, Math.round(16 + 6 * rows[n][k])))];
      g.fillRect(n / rows.length * width, (1 - (place + 1) / order.length) * height, width / rows.length + 0.5, height / order.length + 0.5);
    });
  }
}

function drawLayer(l) {
  const [g, width, height] = context(canvases[l]), m = network.m, floor = height - 34;
  let top = span[l];
  for (const y of network.y[l]) top = Math.max(top, Math.abs(y));
  span[l] = top;
  g.strokeStyle = colour("--line");
  g.beginPath();
  g.moveTo(0, floor / 2);
  g.lineTo(width, floor / 2);
  g.stroke();
  order[l].forEach((j, place) => {
    const share = Math.min(1, Math.max(0, (Math.log10(Math.abs(network.energy(l, j)) + 1e-12) + 6) / 8));
    const x = (place + 0.5) / m * width, radius = Math.max(1.2, Math.min(5, width / m / 2.4));
    g.fillStyle = heat(share);
    g.beginPath();
    g.arc(x, floor / 2 - network.y[l][j] / top * (floor / 2 - 6), radius, 0, 7);
    g.fill();
    g.fillRect(x - radius / 1.5, height - 28 * share, radius * 1.33, 28 * share);
  });
}

function draw() {
  drawSignal();
  spectrograms.forEach((_, i) => drawSpectrogram(i));
  canvases.forEach((_, l) => drawLayer(l));
  const output = network.output(), shares = classify ? probabilities(output) : output;
  const begun = network.n > 0;  // before the first step there is nothing to answer from
  $("answers").classList.toggle("waiting", !begun);
  rows.forEach(({row, fill, number}, k) => {
    const size = classify ? shares[k] : (shares[k] - data.range[0]) / (data.range[1] - data.range[0] || 1);
    fill.style.width = begun ? `${100 * Math.min(1, Math.max(0, size))}%` : 0;
    number.textContent = !begun ? "–" : classify ? `${(100 * shares[k]).toFixed(1)} %` : shares[k].toPrecision(4);
    row.classList.toggle("target", classify && sample.target === k);
  });
  $("time").value = network.n;
  $("now").textContent = `step ${network.n} of ${network.N}`;
  $("speed").textContent = `${SPEEDS[speed]} step${SPEEDS[speed] === 1 ? "" : "s"} per frame`;
  $("play").setAttribute("aria-pressed", playing && direction > 0);
  $("back").setAttribute("aria-pressed", playing && direction < 0);
  $("play").textContent = playing ? "❚❚ pause" : "▶ play";
}

function move(steps) {
  for (let k = 0; k < Math.abs(steps); k++) {
    if (steps > 0 && network.n < network.N) network.step();
    if (steps < 0 && network.n > 0) network.undo();
  }
}

function schedule() {  // at most one frame, also after a pause that was shorter than a frame
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(frame);
}

function frame() {
  if (!playing) return;
  credit += SPEEDS[speed];
  const whole = Math.floor(credit);
  credit -= whole;
  move(direction * whole);
  if ((direction > 0 && network.n === network.N) || (direction < 0 && network.n === 0)) playing = false;
  draw();
  if (playing) schedule();
}

function run(way) {
  direction = way;
  if (way > 0 && network.n === network.N) network.rest();
  if (!playing) { playing = true; schedule(); }
  draw();
}

function choose(i) {
  sample = data.samples[i];
  network.start(sample);
  span.fill(0.1);
  $("sample").value = i;
  $("time").max = network.N;
  $("channels").textContent = `${network.d} channel${network.d > 1 ? "s" : ""}, ${sample.length} samples`;
  $("truth").textContent = sample.target === null ? "" : `truth: ${classify ? data.classes[sample.target] : sample.target}`;
  draw();
}

const pause = () => { playing = false; draw(); };
$("play").onclick = () => playing ? pause() : run(1);
$("back").onclick = () => playing && direction < 0 ? pause() : run(-1);
$("slower").onclick = () => { speed = Math.max(0, speed - 1); draw(); };
$("faster").onclick = () => { speed = Math.min(SPEEDS.length - 1, speed + 1); draw(); };
$("sample").onchange = event => choose(+event.target.value);
$("time").oninput = event => { playing = false; move(+event.target.value - network.n); draw(); };
addEventListener("keydown", event => {
  if (/^(SELECT|INPUT)$/.test(event.target.tagName)) return;
  if (event.key === " " && event.target.tagName === "BUTTON") return;  // the browser presses it
  const act = {
    " ": $("play").onclick, ArrowRight: () => run(1), ArrowLeft: () => run(-1), "+": $("faster").onclick,
    "=": $("faster").onclick, "-": $("slower").onclick,
    Home: () => { network.rest(); pause(); }, End: () => { move(network.N); pause(); },
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

// Compares this page's answers with Python's for all samples, and runs every sample back to the start.
function agreement() {
  let worst = 0, rest = true;
  for (const each of data.samples) {
    network.start(each);
    move(network.N);
    network.output().forEach((v, k) => worst = Math.max(worst, Math.abs(v - each.output[k])));
    move(-network.N);
    rest &&= [...network.y, ...network.z].every(row => row.every(v => v === 0));
  }
  $("agreement").textContent = `${worst.toExponential(1)}; back at the start, ${rest ? "all oscillators are at rest" : "some oscillators still move"}`;
  choose(0);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) run(1);
}
choose(0);
setTimeout(agreement, 0);
