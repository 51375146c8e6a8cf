"use strict";
const COLOURS = {data: "#c62828", transfer: "#ef6c00", forward: "#1565c0", backward: "#6a1b9a", optimizer: "#2e7d32", other: "#757575"};
const NAMES = {data: "data", transfer: "host to device", forward: "forward", backward: "backward", optimizer: "optimizer", other: "other"};
const FILL = {module: "#90a4ae", op: "#42a5f5", node: "#ab47bc", range: "#8d6e63"};
const $ = id => document.getElementById(id);
const ms = us => us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : us >= 1000 ? (us / 1000).toFixed(2) + " ms" : us.toFixed(1) + " us";
const size = n => { for (const [k, u] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [1024, "KB"]]) if (Math.abs(n) >= k) return (n / k).toFixed(2) + " " + u;
  return n + " B"; };
function svg(width, height, inner) {
  const box = document.createElement("div");
  box.innerHTML = `<svg width="${width}" height="${height}" role="img">${inner}</svg>`;
  return box.firstChild;
}

// ---------------------------------------------------------------- steps
let step = null;
const why = s => s.first ? " (the first one)" : s.steady ? "" : " (compiled or loaded kernels)";
function drawSteps() {
  $("legend").innerHTML = Object.keys(NAMES).map(p => `<span class="legend" style="background:${COLOURS[p]}"></span>${NAMES[p]}`).join("");
  if (!DATA.steps.length) { $("steps").textContent = "No step was seen."; return; }
  // Steps that pay for preparations are cut off: the scale is that of the others.
  const scaled = DATA.steps.some(s => s.steady) ? DATA.steps.filter(s => s.steady) : DATA.steps;
  const sorted = scaled.map(s => s.total).sort((a, b) => a - b), top = Math.min(sorted[sorted.length - 1], 4 * sorted[sorted.length >> 1]), w = Math.max(4, Math.min(40, 1200 / DATA.steps.length)), H = 150;
  const bars = DATA.steps.map((s, i) => {
    let y = H - 20;
    const parts = Object.keys(NAMES).map(p => {
      const h = Math.min((H - 30) * s.phases[p] / top, y);
      y -= h;
      return h > 0 ? `<rect x="${60 + i * w}" y="${y}" width="${w - 2}" height="${h}" fill="${COLOURS[p]}"/>` : "";
    }).join("");
    const label = w >= 14 || i % 10 === 0 ? `<text x="${60 + i * w}" y="${H - 6}">${s.step}</text>` : "";
    return `<g data-step="${i}"><title>step ${s.step}: ${ms(s.total)}${why(s)}</title>${parts}` +
      `<rect class="frame" x="${60 + i * w}" y="0" width="${w - 2}" height="${H - 20}" fill="transparent"/>${label}</g>`;
  });
  $("steps").replaceChildren(svg(70 + w * DATA.steps.length, H, `<text x="0" y="12">${ms(top)}</text>` + bars.join("")));
  document.querySelectorAll("#steps g").forEach(g => g.onclick = () => pick(DATA.steps[+g.dataset.step]));
}
function pick(s) {
  step = s;
  view = {start: s.start, end: s.start + s.total};
  document.querySelectorAll("#steps g").forEach(g => g.classList.toggle("on", DATA.steps[+g.dataset.step] === s));
  $("picked").textContent = `step ${s.step}${why(s)}: ${ms(s.total)} = ` +
    Object.keys(NAMES).filter(p => s.phases[p] > 0).map(p => `${NAMES[p]} ${ms(s.phases[p])}`).join(" + ");
  selected = null;
  $("detail").textContent = s.close ? "Click an op." : "The ops of this step were not kept: see one of the last steps.";
  drawTimeline();
}

// ---------------------------------------------------------------- timeline
let view = {start: 0, end: 1}, selected = null, boxes = [], drag = null;
const canvas = $("timeline"), ROW = 17;
function rows() {
  const mine = step ? DATA.timeline.filter(e => e.step === step.step) : [];
  const threads = [...new Set(mine.map(e => e.thread))];
  let base = 2;
  const out = [];
  for (const t of threads) {
    const here = mine.filter(e => e.thread === t), least = Math.min(...here.map(e => e.depth));
    for (const e of here) out.push([e, base + e.depth - least]);
    base += Math.max(...here.map(e => e.depth)) - least + 2;
  }
  return [out, base];
}
function drawTimeline() {
  const [spans, count] = rows(), ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 1200, height = Math.max(80, count * ROW + 10);
  canvas.style.height = height + "px";
  canvas.width = width * ratio; canvas.height = height * ratio;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = "11px system-ui";
  boxes = [];
  if (!step) return;
  const scale = width / (view.end - view.start);
  const box = (start, dur, row, colour, text, what) => {
    const x = (start - view.start) * scale, w = dur * scale;
    if (x + w < 0 || x > width) return;
    const left = Math.max(x, 0), seen = Math.max(Math.min(x + w, width) - left, 0.7), y = row * ROW + 4;
    c.fillStyle = colour;
    c.fillRect(left, y, seen, ROW - 2);
    if (what === selected && what) { c.strokeStyle = "#000"; c.lineWidth = 2; c.strokeRect(left, y, seen, ROW - 2); }
    if (seen > 24) { c.fillStyle = "#fff"; c.fillText(text.slice(0, Math.floor(seen / 6)), left + 3, y + 11); }
    if (what) boxes.push([left, y, seen, what]);
  };
  for (const [phase, start, dur] of step.segments) box(start, dur, 0, COLOURS[phase], NAMES[phase], {name: NAMES[phase], dur, start, kind: "phase"});
  for (const [e, row] of spans) box(e.start, e.dur, row, FILL[e.kind] || FILL.op, e.name, e);
  $("window").textContent = `step ${step.step}, ${ms(view.start - step.start)} to ${ms(view.end - step.start)}`;
}
function zoom(factor, at) {
  const mid = at === undefined ? (view.start + view.end) / 2 : at;
  view = {start: mid - (mid - view.start) * factor, end: mid + (view.end - mid) * factor};
  drawTimeline();
}
const timeAt = x => view.start + x / (canvas.clientWidth || 1200) * (view.end - view.start);
function under(event) {
  const r = canvas.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top;
  const hit = boxes.filter(b => x >= b[0] - 1 && x <= b[0] + b[2] + 1 && y >= b[1] && y <= b[1] + ROW);
  return hit.length ? hit[hit.length - 1][3] : null;
}
function detail(e) {
  selected = e;
  const facts = [["", e.name], ["took", ms(e.dur)], ["begins at", ms(e.start - step.start)], ["phase", e.phase], ["kernel", e.kernel], ["shapes", e.shapes],
    ["module", e.module], ["thread", e.thread]].filter(f => f[1]);
  $("detail").textContent = facts.map(f => (f[0] ? f[0] + " " : "") + f[1]).join(", ");
  drawTimeline();
}
canvas.onwheel = e => { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(e.clientX - canvas.getBoundingClientRect().left)); };
canvas.onpointerdown = e => { drag = {x: e.clientX, view, moved: false}; };
canvas.onpointermove = e => {
  if (drag) {
    const shift = (drag.x - e.clientX) / (canvas.clientWidth || 1200) * (drag.view.end - drag.view.start);
    drag.moved = drag.moved || Math.abs(drag.x - e.clientX) > 3;
    view = {start: drag.view.start + shift, end: drag.view.end + shift};
    drawTimeline();
  }
  const hit = under(e), tip = $("tip");
  tip.style.display = hit ? "block" : "none";
  if (hit) { tip.textContent = `${hit.name}: ${ms(hit.dur)}`; tip.style.left = e.clientX + 12 + "px"; tip.style.top = e.clientY + 12 + "px"; }
};
canvas.onpointerup = e => { const hit = drag && !drag.moved && under(e); drag = null; if (hit) detail(hit); };
canvas.onpointerleave = () => { drag = null; $("tip").style.display = "none"; };
$("in").onclick = () => zoom(0.5);
$("out").onclick = () => zoom(2);
$("whole").onclick = () => { if (step) pick(step); };
window.onresize = drawTimeline;

// ---------------------------------------------------------------- operators
const COLUMNS = [["op", "op"], ["phase", "phase"], ["calls", "calls"], ["total", "total"], ["mean", "mean"], ["share", "share"], ["kernel", "kernel"],
  ["bytes", "memory"], ["flops", "MFLOPs"]].concat(DATA.against ? [["torch_calls", "PyTorch calls"], ["torch_total", "PyTorch total"], ["ratio", "ratio"]] : []);
const NUMBERS = new Set(["calls", "total", "mean", "share", "bytes", "flops", "torch_calls", "torch_total", "ratio"]);
let order = {key: null, up: false};
function shown(key, v) {
  if (v === null || v === undefined || v === "") return "-";
  if (key === "total" || key === "mean" || key === "torch_total") return ms(v);
  if (key === "share") return (100 * v).toFixed(1) + " %";
  if (key === "ratio") return v.toFixed(2);
  if (key === "bytes") return v ? size(v) : "-";
  if (key === "flops") return v ? (v / 1e6).toFixed(2) : "-";
  return String(v);
}
function drawOps() {
  const word = $("search").value.toLowerCase(), phase = $("phase").value;
  let found = DATA.panel.filter(r => (!phase || r.phase === phase) && (!word || (r.op + " " + r.kernel).toLowerCase().includes(word)));
  if (order.key) found = found.slice().sort((a, b) => {
    const p = a[order.key], q = b[order.key];
    if (p === q) return 0;
    if (p === null) return 1;
    if (q === null) return -1;
    return (p < q ? -1 : 1) * (order.up ? 1 : -1);
  });
  document.querySelector("#ops tbody").replaceChildren(...found.map(r => {
    const tr = document.createElement("tr");
    for (const [key] of COLUMNS) {
      const td = document.createElement("td");
      td.textContent = shown(key, r[key]);
      td.className = (NUMBERS.has(key) ? "n" : "") + (key === "ratio" && r.ratio > 1 ? " slow" : "");
      tr.append(td);
    }
    return tr;
  }));
  document.querySelectorAll("#ops th").forEach(th => th.className = (NUMBERS.has(th.dataset.key) ? "n " : "") +
    (th.dataset.key === order.key ? (order.up ? "up" : "down") : ""));
  $("shown").textContent = `${found.length} of ${DATA.panel.length}, together ${ms(found.reduce((s, r) => s + r.total, 0))}` +
    (DATA.against ? `; PyTorch ${ms(found.reduce((s, r) => s + (r.torch_total || 0), 0))}` : "");
}
document.querySelector("#ops thead tr").append(...COLUMNS.map(([key, name]) => {
  const th = document.createElement("th");
  th.textContent = name;
  th.dataset.key = key;
  th.onclick = () => { order = {key, up: order.key === key ? !order.up : !NUMBERS.has(key)}; drawOps(); };
  return th;
}));
$("search").oninput = $("phase").oninput = drawOps;
$("reset").onclick = () => { $("search").value = $("phase").value = ""; order = {key: null, up: false}; drawOps(); };

// ---------------------------------------------------------------- memory
function drawMemory() {
  const m = DATA.memory;
  if (!m) return;
  const W = 1200, H = 180, x1 = m.curve[m.curve.length - 1][0], x0 = m.curve[0][0], at = (t, v) =>
    [60 + (W - 80) * (t - x0) / Math.max(x1 - x0, 1), H - 20 - (H - 40) * v / Math.max(m.peak, 1)].map(n => n.toFixed(1));
  let path = "";
  m.curve.forEach(([t, v], i) => { path += i ? `H${at(t, v)[0]}V${at(t, v)[1]}` : `M${at(t, v)}`; });
  $("memory").replaceChildren(svg(W, H, `<path id="curve" d="${path}" fill="none" stroke="#1565c0" stroke-width="1.5"/>` +
    `<path d="M60 15 V${H - 20} H${W - 15}" fill="none" stroke="#8888"/><text x="2" y="24">${size(m.peak)}</text><text x="2" y="${H - 20}">0</text>` +
    `<text x="60" y="${H - 5}">${ms(x0)}</text><text x="${W - 20}" y="${H - 5}" text-anchor="end">${ms(x1)}</text>`));
  $("peak").textContent = `at most ${size(m.peak)}: ` + Object.entries(m.at_peak).sort((a, b) => b[1] - a[1])
    .map(([c, n]) => `${c.toLowerCase().replace("_", " ")} ${size(n)}`).join(", ");
}
drawSteps();
drawOps();
drawMemory();
const close = DATA.steps.filter(s => s.close);
if (DATA.steps.length) pick(close.length ? close[0] : DATA.steps[0]);
