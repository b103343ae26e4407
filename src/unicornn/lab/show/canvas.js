// What the pages of networks and banks draw alike.

const $ = id => document.getElementById(id);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HUES = [207, 19, 150, 272, 44, 340, 187, 230];  // hue of each channel
const bright = () => matchMedia("(prefers-color-scheme: dark)").matches ? 62 : 40;

function addAnswer(name) {  // a row for a class or a number
  const row = document.createElement("div"), label = document.createElement("span");
  const track = document.createElement("div"), fill = document.createElement("div"), number = document.createElement("span");
  row.className = "answer"; track.className = "track"; fill.className = "fill"; number.className = "number";
  label.textContent = name;
  track.append(fill);
  row.append(label, track, number);
  $("answers").append(row);
  return {row, fill, number};
}

function context(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = 150;
  if (canvas.width !== Math.round(width * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = height * ratio; }
  canvas.style.height = height + "px";
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return [g, width, height];
}

function range(u) {
  return [u.reduce((low, v) => Math.min(low, v), Infinity), u.reduce((high, v) => Math.max(high, v), -Infinity)];
}

function drawLines(g, width, height, u, d, steps) {  // the first steps of a signal, flat, with d channels
  const [low, high] = range(u), scale = (height - 8) / (high - low || 1), N = u.length / d;
  const stride = Math.max(1, Math.floor(N / width / 4));
  for (let i = 0; i < d; i++) {
    g.strokeStyle = `hsl(${HUES[i % HUES.length]} 75% ${bright()}%)`;
    g.beginPath();
    for (let n = 0; n < steps; n += stride) g.lineTo(n / Math.max(N - 1, 1) * width, height - 4 - (u[n * d + i] - low) * scale);
    g.stroke();
  }
}
