"use strict";
// Handles mouse, touch, keys and the address for the page of `minuet view`.

// The following functions move the camera.
function fit() {
  const least = [Infinity, Infinity, Infinity], greatest = [-Infinity, -Infinity, -Infinity];
  finest.places.forEach((axis, i) => {
    const [low, high] = rangeOf(axis);
    least[i] = low * finest.scale[i];
    greatest[i] = (high + 1) * finest.scale[i];
  });
  const middle = least.map((low, i) => (low + greatest[i]) / 2);
  scene.camera.fit(middle, Math.hypot(...least.map((low, i) => greatest[i] - low)) / 2);
  scene.change();
}

function lookFrom(yaw, pitch) {
  Object.assign(scene.camera, {yaw, pitch});
  scene.change();
}

// The following functions are the actions of buttons and keys. `spinning` is the time of the last step of the rotation,
// or 0 while the rotation is off.
let spinning = 0;

function spin(now) {
  if (!spinning) return;
  scene.camera.turn((now - spinning) * 4e-4, 0);
  spinning = now;
  scene.change();
  requestAnimationFrame(spin);
}

function toggleSpin() {
  spinning = spinning ? 0 : performance.now();
  byId("spin").setAttribute("aria-pressed", String(spinning > 0));
  requestAnimationFrame(spin);
}

function step(select, by) {
  select.selectedIndex = (select.selectedIndex + by + select.length) % select.length;
  select.dispatchEvent(new Event("change"));
}

function resize(by) {
  byId("size").value = Number(byId("size").value) + by;
  scene.magnify = 2 ** Number(byId("size").value);
  scene.change();
}

function toggleHelp() {
  const help = byId("help");
  if (help.open) {
    help.close();
  } else {
    help.showModal();
  }
}

// The following functions handle mouse, touch and keys.
const fingers = new Map();

function onPointerMove(event) {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const height = scene.canvas.clientHeight;
  const [dx, dy] = [(event.clientX - before.x) / height, (event.clientY - before.y) / height];
  const gap = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y) || 1;
  };
  const gapBefore = fingers.size === 2 ? gap() : 0;
  fingers.set(event.pointerId, {x: event.clientX, y: event.clientY});
  if (fingers.size === 2) {
    scene.camera.zoom(gapBefore / gap());
    scene.camera.move(dx / 2, -dy / 2);
  } else if (event.buttons & 6 || event.shiftKey) {
    scene.camera.move(dx, -dy);
  } else {
    scene.camera.turn(-4 * dx, 4 * dy);
  }
  scene.change();
}

const keys = {
  ArrowLeft: (shift) => shift ? scene.camera.move(-0.05, 0) : scene.camera.turn(-0.08, 0),
  ArrowRight: (shift) => shift ? scene.camera.move(0.05, 0) : scene.camera.turn(0.08, 0),
  ArrowUp: (shift) => shift ? scene.camera.move(0, 0.05) : scene.camera.turn(0, 0.08),
  ArrowDown: (shift) => shift ? scene.camera.move(0, -0.05) : scene.camera.turn(0, -0.08),
  "+": () => scene.camera.zoom(0.85),
  "=": () => scene.camera.zoom(0.85),
  "-": () => scene.camera.zoom(1 / 0.85),
  Home: fit,
  1: () => lookFrom(-Math.PI / 2, 1.55),
  2: () => lookFrom(-Math.PI / 2, 0),
  3: () => lookFrom(0, 0),
  v: (shift) => step(byId("shown"), shift ? -1 : 1),
  c: (shift) => step(byId("colouring"), shift ? -1 : 1),
  "[": () => resize(-0.5),
  "]": () => resize(0.5),
  r: toggleSpin,
  t: toggleTheme,
  h: toggleHelp,
  "?": toggleHelp,
};

function onKey(event) {
  const isTyped = event.target.matches("select, input") && event.key.startsWith("Arrow");
  const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action(event.shiftKey);
  scene.change();
}

function listen() {
  const canvas = scene.canvas;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, {x: event.clientX, y: event.clientY});
  });
  canvas.addEventListener("pointermove", onPointerMove);
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    scene.camera.zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) * 0.0015));
    scene.change();
  }, {passive: false});
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  addEventListener("keydown", onKey);
  byId("shown").addEventListener("change", reshow);
  byId("colouring").addEventListener("change", repaint);
  byId("size").addEventListener("input", () => resize(0));
  byId("fit").addEventListener("click", fit);
  byId("spin").addEventListener("click", toggleSpin);
  byId("theme").addEventListener("click", toggleTheme);
  byId("keys").addEventListener("click", toggleHelp);
  themeListeners.push(() => scene.change());
}

/** Applies the address's initial settings, for example "#show=voxels, stride 4&colour=neighbours&zoom=2&theme=dark". */
function obeyAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const choose = (id, value) => {
    const select = byId(id);
    if (![...select.options].some((option) => option.value === value)) return;
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };
  choose("shown", wanted.get("show"));
  choose("colouring", wanted.get("colour"));
  if (Number(wanted.get("zoom")) > 0) scene.camera.zoom(1 / Number(wanted.get("zoom")));
  if (["light", "dark"].includes(wanted.get("theme"))) chosenTheme = wanted.get("theme");
  applyTheme();
}

describe();
fill(byId("shown"), choices.map((choice) => choice.name));
listen();
fit();
reshow();
obeyAddress();
