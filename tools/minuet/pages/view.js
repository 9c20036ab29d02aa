"use strict";
// Selects the data that the page of `minuet view` shows, and their colours.

const scene = startScene();
const levelColours = [1, 9, 5, 8, 4].map(hue);

function startScene() {
  try {
    return new Scene(byId("scene"));
  } catch (error) {
    document.body.append(element("p", {id: "problem", textContent: error.message}));
    throw error;
  }
}

/** Returns three numbers, one for each axis, if the data have one number for all axes. */
function perAxis(value) {
  return Array.isArray(value) ? value : [value, value, value];
}

const voxelSize = perAxis(data.voxel_size);

/** Returns the edges in metres of a voxel of this stride, as one number if they are equal. */
function shownSize(stride) {
  return [...new Set(voxelSize)].length === 1 ? shown(stride * voxelSize[0]) :
      voxelSize.map((size) => shown(stride * size)).join(" × ");
}

// The page shows one of these sets, which are the points and the voxels of each level, or all levels together.
const sets = data.sets.map((set) => {
  const places = set.position.map(decode);
  const edge = voxelSize.map((size) => set.stride * size), scale = perAxis(set.scale);
  const body = scene.body(places, scale, edge);
  body.diameter = Math.min(...voxelSize) / 2;
  const middle = edge[2] / 2;
  const heights = places[2].map((z) => z * scale[2] + middle + data.origin[2]);
  const columns = new Map([["height", {unit: "m", values: heights}]]);
  for (const column of set.columns) {
    columns.set(column.name, {unit: column.unit, packed: column.numbers});
  }
  if (set.labels) columns.set("label", {isLabel: true, packed: set.labels});
  columns.set("voxel", {isVoxel: true});
  const name = set.stride ? `voxels, stride ${set.stride}` : "points";
  return {...set, scale, name, body, columns, places};
});
const finest = sets.find((set) => set.stride === 1);
const choices = [...sets.map((set) => ({name: set.name, sets: [set]})),
                 {name: "all levels", sets: sets.filter((set) => set.stride > 0)}];

/** Returns the voxel of each point. Points are sorted by voxel, so the voxels' counts determine it. */
function voxelOfPoints() {
  const rows = new Float32Array(sets[0].count);
  let point = 0;
  valuesOf(finest, "points").forEach((count, row) => {
    rows.fill(row, point, point + count);
    point += count;
  });
  return rows;
}

function valuesOf(set, name) {
  const column = set.columns.get(name);
  if (column.values) return column.values;
  if (column.packed) column.values = decode(column.packed);
  if (column.isVoxel) column.values = set.stride ? Float32Array.from({length: set.count}, (_, i) => i) : voxelOfPoints();
  if (column.ofVoxel) {
    const values = valuesOf(finest, name);
    column.values = valuesOf(set, "voxel").map((row) => values[row]);
  }
  return column.values;
}

if (!sets[0].stride) sets[0].columns.set("neighbours", {unit: "", ofVoxel: true});

/** Returns the range of values that the ramp of colours covers, without the lowest and highest 2 % of the values. */
function rangeOf(values) {
  const sorted = values.filter((value) => !isNaN(value)).sort();
  if (!sorted.length) return [0, 1];
  const at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
  const [low, high] = [at(0.02), at(0.98)];
  return low < high ? [low, high] : [sorted[0], sorted[sorted.length - 1]];
}

function colourNumbers(values, low, high) {
  const colours = new Uint8Array(3 * values.length), steps = [];
  for (let i = 0; i < 256; ++i) steps.push(ramp(i / 255));
  values.forEach((value, i) => {
    const step = Math.min(Math.max(Math.round(255 * (value - low) / (high - low || 1)), 0), 255);
    colours.set(isNaN(value) ? noColour : steps[step], 3 * i);
  });
  return colours;
}

function colourEach(values, colourOf) {
  const colours = new Uint8Array(3 * values.length);
  values.forEach((value, i) => colours.set(isNaN(value) ? noColour : colourOf(value), 3 * i));
  return colours;
}

// The following functions make the legend.
function title(text, unit) {
  return element("p", {}, element("b", {textContent: text}), unit ? ` in ${unit}` : "");
}

function swatches(rows) {
  const table = element("table");
  for (const [colour, name, count] of rows) {
    const swatch = element("span", {className: "swatch"});
    swatch.style.background = css(colour);
    table.append(element("tr", {}, element("td", {}, swatch, name), element("td", {textContent: shown(count)})));
  }
  return table;
}

function rampLegend(name, unit, values, [low, high]) {
  const bar = element("div", {className: "ramp"});
  bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((at) => css(ramp(at))).join()})`;
  const ticks = element("div", {className: "ticks"});
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    ticks.append(element("span", {textContent: shown(Number((low + share * (high - low)).toPrecision(3)))}));
  }
  let [least, greatest, sum, count] = [Infinity, -Infinity, 0, 0];
  for (const value of values) {
    if (isNaN(value)) continue;
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
    sum += value;
    ++count;
  }
  const none = values.length - count;
  const range = count ? `${shown(least)} to ${shown(greatest)}, mean ${shown(sum / count)}` : "no numbers";
  const facts = range + (unit && count ? ` ${unit}` : "") + (none ? `; grey: ${shown(none)} without one` : "");
  return [title(name, unit), bar, ticks, element("p", {className: "faint", textContent: facts})];
}

/** Returns the range of the numbers of neighbours, and their histogram as a legend. */
function neighbourLegend(values) {
  const counts = new Array(data.kernel_size ** 3 + 1).fill(0);
  for (const value of values) ++counts[value];
  while (counts.length > 2 && !counts[counts.length - 1]) counts.pop();
  const most = Math.max(...counts), bars = element("div", {className: "bars"});
  counts.forEach((count, neighbours) => {
    if (!neighbours) return;
    const bar = element("i", {title: `${neighbours} neighbours: ${shown(count)}`});
    bar.style.height = `${100 * count / most}%`;
    bar.style.background = css(ramp((neighbours - 1) / Math.max(counts.length - 2, 1)));
    bars.append(bar);
  });
  const last = counts.length - 1, ticks = element("div", {className: "ticks"});
  const middle = (last + 1) / 2;
  for (const tick of last > 2 ? [1, middle, last] : [1, last]) ticks.append(element("span", {textContent: shown(tick)}));
  const sum = counts.reduce((total, count, neighbours) => total + count * neighbours, 0);
  const kernel = new Array(3).fill(data.kernel_size).join("×");
  const facts = `mean ${shown(sum / values.length)} of ${kernel}, itself counted; the tallest bar: ${shown(most)}`;
  return {range: [1, last], parts: [title("neighbours", ""), bars, ticks,
                                    element("p", {className: "faint", textContent: facts})]};
}

// The following functions show the chosen set.
function fill(select, names) {
  const before = select.value;
  select.replaceChildren(...names.map((name) => element("option", {textContent: name, value: name})));
  if (names.includes(before)) select.value = before;
}

/** Paints the shown set and returns the legend of its colours. */
function paint() {
  const choice = choices[byId("shown").selectedIndex];
  if (choice.sets.length > 1 || byId("colouring").value === "stride") return paintLevels(choice);
  const [set] = choice.sets, name = byId("colouring").value, column = set.columns.get(name);
  const values = valuesOf(set, name);
  if (column.isLabel) {
    const counts = new Array(data.labels.length).fill(0);
    for (const value of values) ++counts[value];
    scene.paint(set.body, colourEach(values, (label) => data.labels[label].colour));
    const rows = data.labels.map(({value, colour}, i) => [colour, value < 0 ? "none" : `label ${value}`, counts[i]]);
    return [title("label", ""), swatches(rows.filter((row) => row[2]))];
  }
  if (column.isVoxel) {
    scene.paint(set.body, colourEach(values, hue));
    return [title("voxel", ""), `each voxel of stride ${set.stride || 1} has a colour of its own`];
  }
  if (name === "neighbours") {
    const {range, parts} = neighbourLegend(values);
    scene.paint(set.body, colourNumbers(values, ...range));
    return parts;
  }
  const range = rangeOf(values);
  scene.paint(set.body, colourNumbers(values, ...range));
  return rampLegend(name, column.unit, values, range);
}

function paintLevels(choice) {
  const rows = choice.sets.map((set, level) => {
    const colours = new Uint8Array(3 * set.count);
    for (let i = 0; i < set.count; ++i) colours.set(levelColours[level], 3 * i);
    scene.paint(set.body, colours);
    return [levelColours[level], `stride ${set.stride}: ${shownSize(set.stride)} m`, set.count];
  });
  return [title("voxels by tensor stride", ""), swatches(rows)];
}

function repaint() {
  byId("legend").replaceChildren(...paint());
  scene.change();
}

function reshow() {
  const choice = choices[byId("shown").selectedIndex], isAll = choice.sets.length > 1;
  fill(byId("colouring"), isAll ? ["stride"] : [...choice.sets[0].columns.keys()]);
  for (const set of choice.sets) set.body.hollow = isAll && set.stride > 1;  // This keeps finer voxels visible.
  scene.show(choice.sets.map((set) => set.body));
  repaint();
}

// The following functions show facts about the cloud.
function describe() {
  const points = data.points ? `${shown(data.points)} points, ` : "";
  const skipped = data.skipped ? `, ${shown(data.skipped)} dropped` : "";
  const kernel = new Array(3).fill(data.kernel_size).join("×");
  byId("facts").textContent = `${points}voxels of ${shownSize(1)} m${skipped}; kernel maps of ${kernel}, ` +
      `made on ${data.device}`;
  const head = ["stride", "edge, m", "voxels", "pairs", "per voxel"];
  const row = (cell, values) => element("tr", {}, ...values.map((value) => element(cell, {textContent: value})));
  byId("levels").append(row("th", head), ...data.levels.map(({stride, voxels, pairs}) => row("td", [
    stride, shownSize(stride), shown(voxels), shown(pairs), (pairs / voxels).toFixed(2)])));
}
