"use strict";
// Draws the page of `minuet report`, with the machine, notes, claims, plots and tables of each document in a chapter.

function drawTable({title, columns, rows}) {
  const names = element("tr", {}, ...columns.map((name) => element("th", {textContent: name})));
  const table = element("table", {}, names, ...rows.map((row) => element("tr", {}, ...row.map((cell) => {
    const isText = typeof cell === "string";
    const text = cell === null ? "" : typeof cell === "number" ? shown(cell) : String(cell);
    return element("td", {textContent: text, className: isText ? "text" : ""});
  }))));
  const wide = element("div", {className: "wide"}, table), head = element("h3", {textContent: title ?? ""});
  if (rows.length <= 30) return [head, wide];
  return [head, element("details", {}, element("summary", {textContent: `${shown(rows.length)} rows`}), wide)];
}

// Draws the table of a paper's claims and the measurements.
function drawClaims(claims) {
  if (claims.length === 0) return [];
  const names = ["the paper", "here", "its shape"].map((name) => element("th", {textContent: name}));
  const rows = claims.map(({paper, here, shape, why}) => element("tr", {},
      element("td", {textContent: paper}), element("td", {textContent: here}),
      element("td", {}, element("b", {textContent: shape}), ...(why ? [`: ${why}`] : []))));
  return [element("h3", {textContent: "What the paper says"}),
          element("table", {className: "claims"}, element("tr", {}, ...names), ...rows)];
}

const firstFacts = ["device", "description", "arch", "driver", "toolkit", "nvrtc", "commit"];

function machineLine(machine) {
  const names = new Set([...firstFacts.filter((name) => name in machine), ...Object.keys(machine)]);
  const facts = [...names].map((name) => [name, machine[name]]).filter(([, value]) => value !== null && value !== "");
  return element("p", {className: "machine"}, ...facts.map(([name, value]) => element(
      "span", {}, element("span", {className: "faint", textContent: `${name.replaceAll("_", " ")} `}),
      element("b", {textContent: typeof value === "number" ? shown(value) : String(value)}))));
}

function drawDocument(result, number) {
  const section = element("section", {id: `chapter${number}`},
                          element("h2", {textContent: result.title}),
                          element("p", {className: "faint", textContent: result.file}),
                          machineLine(result.machine ?? {}));
  for (const note of result.notes ?? []) section.append(element("p", {textContent: note}));
  section.append(...drawClaims(result.claims ?? []));
  for (const plot of result.plots ?? []) {
    section.append(element("h3", {textContent: plot.title ?? ""}), drawPlot(plot));
  }
  for (const table of result.tables ?? []) section.append(...drawTable(table));
  byId("documents").append(section);
  byId("chapters").append(element("a", {href: `#chapter${number}`, textContent: result.title}));
}

data.forEach(drawDocument);
byId("theme").addEventListener("click", toggleTheme);
