// The page of a bank: a series, which the pointer can redraw, and the bank's answer, computed here.

const data = JSON.parse(document.getElementById("data").textContent);
const bank = new Bank(data.bank), d = bank.deviation.length;
let sample, u, evidence, answer, redrawn, last = null;

const rows = bank.classes.map(addAnswer);
const rowsOf = u => Array.from({length: u.length / d}, (_, n) => u.subarray(n * d, (n + 1) * d));
const values = each => new Float64Array(floats(each.u).buffer);

function drawEvidence(g, width, height) {  // for the most likely class, behind the series
  const N = sample.length, own = evidence.subarray(answer.indexOf(Math.max(...answer)) * N).subarray(0, N);
  const most = Math.max(...range(own).map(Math.abs)) || 1;
  own.forEach((v, n) => {
    g.fillStyle = `hsl(${v > 0 ? 210 : 10} 80% 55% / ${0.6 * Math.abs(v) / most})`;
    g.fillRect(n / N * width, 0, width / N + 0.5, height);
  });
}

function draw() {
  const [g, width, height] = context($("signal"));
  if (!redrawn) drawEvidence(g, width, height);
  drawLines(g, width, height, u, d, sample.length);
  rows.forEach(({row, fill, number}, k) => {
    fill.style.width = `${100 * answer[k]}%`;
    number.textContent = `${(100 * answer[k]).toFixed(1)} %`;
    row.classList.toggle("target", sample.target === k);
  });
}

function choose(i) {
  [sample, redrawn] = [data.samples[i], false];
  [u, evidence] = [values(sample), floats(sample.evidence)];
  answer = bank.predict(rowsOf(u));
  $("channels").textContent = `${d} channel${d > 1 ? "s" : ""}, ${sample.length} steps`;
  $("truth").textContent = sample.target === null ? "" : `truth: ${bank.classes[sample.target]}`;
  draw();
}

function redraw(event) {  // the channel nearest to where the pointer went down follows it
  const {left, top, width, height} = $("signal").getBoundingClientRect(), [low, high] = last.range, N = sample.length;
  const n = Math.min(N - 1, Math.max(0, Math.round((event.clientX - left) / width * (N - 1))));
  const v = low + (height - 4 - (event.clientY - top)) / (height - 8) * (high - low);
  const near = c => Math.abs(u[n * d + c] - v);
  last.channel ??= Array.from({length: d}, (_, c) => c).reduce((best, c) => near(c) < near(best) ? c : best);
  const from = last.n ?? n, before = last.v ?? v;
  for (let k = Math.min(from, n); k <= Math.max(from, n); k++) u[k * d + last.channel] = k === n ? v : before + (v - before) * (k - from) / (n - from);
  Object.assign(last, {n, v});
  redrawn = true;
  draw();
}

$("signal").onpointerdown = event => { last = {range: range(u)}; $("signal").setPointerCapture(event.pointerId); redraw(event); };
$("signal").onpointermove = event => last && redraw(event);
$("signal").onpointerup = $("signal").onpointercancel = () => { last = null; answer = bank.predict(rowsOf(u)); draw(); };
$("sample").onchange = event => choose(+event.target.value);
$("restore").onclick = () => choose(+$("sample").value);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

data.samples.forEach((each, i) => $("sample").append(new Option(each.name, i)));
choose(0);
const differences = data.samples.flatMap(each => bank.predict(rowsOf(values(each))).map((p, k) => Math.abs(p - each.output[k])));
$("agreement").textContent = Math.max(...differences).toExponential(1);
