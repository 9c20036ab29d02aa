"use strict";
// Has the functions of all pages, which decode numbers, write numbers as text, and choose colours and the theme.

const data = JSON.parse(document.getElementById("data").textContent);

/** Decodes numbers that pack_numbers() or pack_floats() of page.cc packed, as floats. */
function decode(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  if (packed.bits === 32) return new Float32Array(bytes.buffer);
  const steps = new Uint16Array(bytes.buffer);
  const values = new Float32Array(steps.length);
  for (let i = 0; i < steps.length; ++i) {
    values[i] = steps[i] === 65535 ? NaN : packed.least + packed.step * steps[i];
  }
  return values;
}

/** Formats a number: an integer with grouped digits, another number with four digits. */
function shown(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

// These colours stand for low to high values. Each colour is lighter than the previous one, and all are visible on
// white and on black.
const rampColours = [[94, 78, 216], [36, 128, 212], [18, 160, 143], [124, 184, 47], [243, 190, 50]];
const noColour = [138, 138, 138];

/** Returns the colour of the ramp at `place`, from 0 to 1. */
function ramp(place) {
  const at = Math.min(Math.max(place, 0), 1) * (rampColours.length - 1);
  const low = rampColours[Math.floor(at)], high = rampColours[Math.ceil(at)];
  return low.map((part, i) => Math.round(part + (high[i] - part) * (at % 1)));
}

/** Returns a colour for a number. Hues differ by the golden angle, so that many numbers look different. */
function hue(number) {
  const turn = (number * 0.6180339887) % 1, light = [0.6, 0.48, 0.72][number % 3];
  return [0, 8, 4].map((offset) => {
    const k = (offset + turn * 12) % 12;
    return Math.round(255 * (light - 0.28 * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  });
}

function css(colour) {
  return `rgb(${colour.join(" ")})`;
}

// The following functions choose the theme.
const darkWanted = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;  // The value null means the system's theme.
const themeListeners = [];

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function applyTheme() {
  document.documentElement.dataset.theme = chosenTheme ?? (darkWanted.matches ? "dark" : "light");
  for (const listener of themeListeners) listener();
}

function toggleTheme() {
  chosenTheme = isDark() ? "light" : "dark";
  applyTheme();
}

darkWanted.addEventListener("change", applyTheme);
applyTheme();
