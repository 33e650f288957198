// Figures that move.  What they show is drawn by the package's own kernels (kernels.js, made by
// tools/moving.py); here is only where to click, and how it looks.
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
let compiled;
const ARRAYS = { float64: Float64Array, int64: BigInt64Array, int32: Int32Array };

function lgamma(x) {  // what Math lacks: Stirling's series, from 15 on
  let out = 0;
  for (; x < 15; x++) out -= Math.log(x);
  const y = 1 / (x * x);
  return out + (x - .5) * Math.log(x) - x + .9189385332046728
    + (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
}

// A scene's arrays and functions, in a memory of its own.
class Machine {
  static async of(name) {
    const module = await (compiled ??= WebAssembly.compile(bytesOf(KERNELS.module)));
    const machine = Object.assign(new Machine(), KERNELS.scenes[name]);
    const memory = new WebAssembly.Memory({ initial: 32 });
    const table = new WebAssembly.Table({ initial: 64, element: "anyfunc" });
    const env = {
      __linear_memory: memory, __indirect_function_table: table, lgamma,
      __stack_pointer: new WebAssembly.Global({ value: "i32", mutable: true }, KERNELS.base),
    };
    for (const { name, kind } of WebAssembly.Module.imports(module))
      if (kind === "function") env[name] ??= Math[name] ?? (() => { throw Error(name); });
    await WebAssembly.instantiate(module, { env });
    machine.buffer = memory.buffer;
    machine.call = (entry) => {
      const place = new DataView(memory.buffer).getUint32(4 * machine.entries[entry], true);
      if (table.get(place)()) throw Error(`${entry} failed`);
      return new Int32Array(memory.buffer, KERNELS.result, 1)[0];
    };
    machine.reset(0);
    return machine;
  }
  reset(seed) {
    new Uint8Array(this.buffer, KERNELS.base).set(bytesOf(KERNELS.memory));
    KERNELS.seeds[seed].forEach((word, i) => {
      new BigUint64Array(this.buffer, KERNELS.base, 4)[i] = BigInt(word);
    });
  }
  get(name) {
    const [at, type, n] = this.arrays[name];
    return Array.from(new ARRAYS[type](this.buffer, at, n), Number);
  }
  set(name, value) {
    const [at, type] = this.arrays[name];
    new ARRAYS[type](this.buffer, at, 1)[0] = type === "int64" ? BigInt(value) : value;
  }
  keep() {  // the random numbers' state, and all arrays
    return [[KERNELS.base, KERNELS.base + 32], [this.from, this.to]].map(
      ([from, to]) => [from, this.buffer.slice(from, to)]);
  }
  restore(kept) {
    for (const [from, bytes] of kept) new Uint8Array(this.buffer, from).set(new Uint8Array(bytes));
  }
}

const COLORS = ["#8ecae6", "#ffb703", "#95d5b2", "#f4978e", "#cdb4db", "#e9d985", "#a3b18a", "#ffc8dd",
  "#b8c0ff", "#d4a373", "#80ed99", "#ced4da"];
const color = (k) => COLORS[k % COLORS.length];
const percent = (p) => (p < .0005 ? "under 0.1" : (100 * p).toFixed(1)) + "%";
const counts = (labels) => labels.reduce((n, k) => (n[k] = (n[k] || 0) + 1, n), []);
const svg = (w, h, inside) => `<svg viewBox="0 0 ${w} ${h}" aria-hidden="true">${inside}</svg>`;
const rect = (x, y, w, h, fill, more = "") =>
  `<rect x="${x}" y="${y}" width="${Math.max(w, 0)}" height="${h}" fill="${fill}" ${more}/>`;
const word = (x, y, text) => `<text x="${x}" y="${y}">${text}</text>`;
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const track = (past, w, h) => {  // a line of what has been, a number for each step
  const high = Math.max(...past, 1), x = (i) => 30 + (w - 40) * i / Math.max(past.length - 1, 20);
  const y = (v) => h - 8 - (h - 22) * v / high;
  return `<g transform="translate(0 0)"><polyline class="line" points="${
    past.map((v, i) => `${x(i)},${y(v)}`).join(" ")}"/><circle r="4" class="dot" cx="${
    x(past.length - 1)}" cy="${y(past.at(-1))}"/>${word(0, y(high) + 4, high)}${word(0, h - 4, 0)}</g>`;
};
const under = (top, inside) => `<g transform="translate(0 ${top})">${inside}</g>`;

// Each: the unit that its slider counts, what a frame looks like, and what it says in words.
const SCENES = {
  stick: {
    unit: "piece", length: 40, alpha: true,
    draw(m, i) {
      const pieces = m.get("pieces").slice(0, i), left = 1 - pieces.reduce((a, b) => a + b, 0);
      let x = 0;
      const parts = pieces.map((p, k) => rect(600 * (x += p) - 600 * p, 10, 600 * p, 50, color(k)));
      return [svg(600, 70, parts.join("") + rect(600 * x, 10, 600 * left, 50, "none", 'class="rest"')),
        `${plural(i, "piece")} broken off at α = ${m.get("alpha")[0].toFixed(2)}; ` + (i
          ? `the last is ${percent(pieces[i - 1])} of the stick, ${percent(left)} is left.`
          : "the stick is whole.")];
    },
  },
  urn: {
    unit: "draw", length: 60, alpha: true,
    draw(m, i) {
      const drawn = m.get("table").slice(0, i), n = counts(drawn), alpha = m.get("alpha")[0];
      const balls = drawn.map((k, r) =>
        `<circle cx="${15 + 30 * (r % 20)}" cy="${15 + 30 * Math.floor(r / 20)}" r="12" fill="${color(k)}"/>`
        + `<text class="on" x="${15 + 30 * (r % 20)}" y="${19 + 30 * Math.floor(r / 20)}">${k + 1}</text>`);
      let x = 0;
      const bar = n.map((c, k) => rect(600 * (x += c / i) - 600 * c / i, 100, 600 * c / i, 30, color(k)));
      const k = drawn.at(-1), before = i && n[k] - 1;
      return [svg(600, 135, balls.join("") + bar.join("")), `α = ${alpha.toFixed(2)}. ` + (i
        ? `Draw ${i}: ` + (before
          ? `colour ${k + 1} again, of which ${before} of ${i - 1} were: probability ${percent(before / (i - 1 + alpha))}.`
          : `a new colour, ${k + 1}: probability ${percent(alpha / (i - 1 + alpha))}.`)
          + ` ${plural(n.length, "colour")}.` : "Nothing has been drawn.")];
    },
  },
  franchise: {
    unit: "sweep",
    draw(m, i, past, chosen) {
      const offsets = m.get("offsets"), [t, z, x, n, dish] = ["t", "z", "x", "n_jt", "k_jt"].map((a) => m.get(a));
      let p = [], said = "Click a customer: how probable is each table for it, when all others stay?";
      const at = chosen === null ? -1 : offsets.findIndex((o) => o > chosen) - 1;
      if (at >= 0) {
        m.set("chosen", chosen);
        m.call("weigh");
        p = m.get("out");
      }
      const rows = m.get("n_tables").map((T, j) => {
        const first = offsets[j], tables = [...Array(T).keys()].map((b) => {
          const sitting = t.map((s, c) => c).filter((c) => c >= first && c < offsets[j + 1] && t[c] === b);
          const share = j === at ? `<i>${percent(p[b])}</i>` : "";
          return `<div class="table" style="background:${color(dish[first + b])}"><b>dish ${dish[first + b] + 1}</b>${share}${
            sitting.map((c) => `<button type="button" data-customer="${c}" aria-pressed="${c === chosen}">${DIARY[x[c]]}</button>`).join("")}</div>`;
        });
        if (j === at) {
          const fresh = p.slice(T).map((q, k) => [q, k]).filter(([q]) => q > 0);
          const known = m.get("m_k"), name = (k) => known[k] ? `dish ${k + 1}` : "a new dish";
          tables.push(`<div class="table new"><b>new table</b>${
            fresh.map(([q, k]) => `<span>${name(k)} <i>${percent(q)}</i></span>`).join("")}</div>`);
          said = `“${DIARY[x[chosen]]}” in restaurant ${j + 1}: ` + tables.slice(0, T).map((_, b) =>
            `table ${b + 1} with dish ${dish[first + b] + 1} ${percent(p[b])}`).join(", ")
            + `; a new table with ${fresh.map(([q, k]) => `${name(k)} ${percent(q)}`).join(", ")}.`;
        }
        return `<div class="restaurant"><span>restaurant ${j + 1}</span>${tables.join("")}</div>`;
      });
      return [rows.join(""), `After ${plural(i, "sweep")}: ${plural(m.get("K")[0], "dish").replace("dishs", "dishes")}. ${said}`,
        m.get("K")[0]];
    },
  },
  bars: {
    unit: "sweep",
    draw(m, i, past) {
      const sizes = m.get("n_k"), n_vk = m.get("n_vk"), K = m.get("K")[0], all = sizes.reduce((a, b) => a + b);
      const order = [...Array(K).keys()].sort((a, b) => sizes[b] - sizes[a]).slice(0, 20);
      const topics = order.map((k, r) => {
        const x = 60 * (r % 10), y = 72 * Math.floor(r / 10), cells = [];
        for (let v = 0; v < 25; v++) {
          const dark = Math.min(5 * n_vk[v * sizes.length + k] / sizes[k], 1);
          cells.push(rect(x + 10 * (v % 5), y + 10 * Math.floor(v / 5), 10, 10, "currentColor", `fill-opacity="${dark.toFixed(2)}"`));
        }
        return cells.join("") + rect(x, y, 50, 50, "none", 'class="rest"') + word(x + 4, y + 64, percent(sizes[k] / all));
      });
      return [svg(600, 225, topics.join("") + under(145, track([...past, K], 600, 80))),
        `After ${plural(i, "sweep")}: ${plural(K, "topic")}, the largest with ${percent(sizes[order[0]] / all)} of the tokens.`
        + " The line is the number of topics; the truth is ten bars.", K];
    },
  },
  split: {
    unit: "proposal",
    draw(m, i, past) {
      const points = m.get("points"), z = m.get("z"), K = m.get("K")[0], [s, sa, g, ga] = m.get("tally");
      const dots = z.map((k, r) => `<circle class="point" r="7" fill="${color(k)}" cx="${300 + 32 * points[2 * r]}" cy="${
        150 - 24 * (points[2 * r + 1] - 1.3)}"/><text class="on" x="${300 + 32 * points[2 * r]}" y="${
        154 - 24 * (points[2 * r + 1] - 1.3)}">${k + 1}</text>`);
      return [svg(600, 360, dots.join("") + under(290, track([...past, K], 600, 70))),
        `After ${plural(i, "proposal")}: ${plural(K, "cluster")} (the points were drawn around three). `
        + `Splits: ${sa} of ${s} accepted; merges: ${ga} of ${g}.`, K];
    },
  },
  hmm: {
    unit: "sweep",
    draw(m, i, past) {
      const x = m.get("x"), z = m.get("z"), K = m.get("K")[0];
      const steps = z.map((k, r) => {
        const at = [60 * (r % 10), 24 * Math.floor(r / 10)];
        return rect(at[0] + 1, at[1] + 1, 58, 22, color(k)) + `<text class="on" x="${at[0] + 30}" y="${at[1] + 17}">${
          String.fromCharCode(65 + x[r])}<tspan dx="5" class="small">${k + 1}</tspan></text>`;
      });
      return [svg(600, 370, steps.join("") + under(290, track([...past, K], 600, 80))),
        `After ${plural(i, "sweep")}: ${plural(K, "state")} for twelve times ABCDEFEDCB, which has six symbols and ten`
        + ` situations. Rows are periods: a state found is a column of one colour.`, K];
    },
  },
};
const DIARY = "sea sand sun ball goal team".split(" ");

async function bring(figure) {
  const scene = SCENES[figure.dataset.scene], m = await Machine.of(figure.dataset.scene);
  const box = document.createElement("div"), label = (text) => `<label>${text} <input type="range"></label>`;
  box.innerHTML = `<div class="controls"><button type="button">Play</button><button type="button">Step</button>${
    label(`${scene.unit} <output>0</output>`)}${scene.alpha ? label("α <output></output>") : ""
    }<button type="button">Other numbers</button></div><div class="stage"></div><p role="status"></p>`;
  figure.prepend(box);
  const [play, step, other] = box.querySelectorAll(".controls > button"), [at, alpha] = box.querySelectorAll("input");
  const [stage, status] = box.querySelectorAll(".stage, p"), said = box.querySelectorAll("output");
  let seed = 0, frames = [], clock = null, chosen = null;
  const show = () => {
    if (!scene.length) m.restore(frames[at.value][0]);
    const past = frames.slice(0, at.value).map((frame) => frame[1]);
    const [picture, text, number] = scene.draw(m, +at.value, past, chosen);
    if (!scene.length) frames[at.value][1] = number;
    [stage.innerHTML, status.textContent, said[0].textContent] = [picture, text, at.value];
  };
  const begin = () => {
    m.reset(seed);
    chosen = null;
    if (scene.alpha) {
      m.set("alpha", 10 ** alpha.value);
      said[1].textContent = (10 ** alpha.value).toFixed(2);
    }
    if (scene.length) m.call("step");
    else [frames, at.max, at.value] = [[[m.keep()]], 0, 0];
    show();
  };
  const forward = () => {
    if (+at.value < +at.max) at.value++;
    else if (!scene.length) {
      m.call("step");
      frames.push([m.keep()]);
      at.max = frames.length - 1;
      at.value = at.max;
      if (frames.length > 400) stop();
    } else at.value = 0;
    show();
  };
  const stop = () => {
    clearInterval(clock);
    [clock, play.textContent, status.ariaLive] = [null, "Play", "polite"];
  };
  Object.assign(at, { min: 0, max: scene.length || 0, value: scene.length ? 12 : 0, oninput: show });
  if (alpha) Object.assign(alpha, { min: -1, max: 2, step: .05, value: .3, oninput: begin });
  step.onclick = () => { stop(); forward(); };
  other.onclick = () => { stop(); seed = (seed + 1) % KERNELS.seeds.length; begin(); };
  play.onclick = () => {
    if (clock) return stop();
    [play.textContent, status.ariaLive] = ["Stop", "off"];
    clock = setInterval(forward, matchMedia("(prefers-reduced-motion: reduce)").matches ? 1500 : 250);
  };
  stage.onclick = ({ target }) => {
    if (!target.dataset.customer) return;
    chosen = +target.dataset.customer;
    stop();
    show();
    stage.querySelector(`[data-customer="${chosen}"]`).focus();
  };
  begin();
}

const figures = document.querySelectorAll("figure.moving");
if (figures.length) {
  const kernels = document.createElement("script");
  kernels.src = document.currentScript.src.replace(/moving\.js.*/, "kernels.js");
  kernels.onload = () => figures.forEach(bring);
  document.head.append(kernels);
}
