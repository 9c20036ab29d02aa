"use strict";
// Draws the plots of a document as SVG. A plot has horizontal bars (which leave room for long names), stacked bars, or
// lines.

const seriesColours = ["#4a86cf", "#df8a35", "#3fa468", "#c8568a", "#8b6bd0", "#a99a2f", "#3fa7b5", "#a0674a", "#7d8794",
                       "#d8604f"];
const plotWidth = 860;
const letterWidth = 6.9;  // This is an upper bound for the width of a letter in plots.

function colourOf(index) {
  return seriesColours[index % seriesColours.length];
}

function startPlot(height, label) {
  const svg = d3.select(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
  return svg.attr({viewBox: `0 0 ${plotWidth} ${height}`, role: "img", "aria-label": label});
}

/** Writes a name. If it is cut, the whole name appears as a tooltip. */
function writeName(text, name, most) {
  text.text(name.length > most ? name.slice(0, most - 1) + "…" : name);
  if (name.length > most) text.append("title").text(name);
}

/** Draws names and colours of the series, in several lines if needed. Returns the height of the legend in the plot. */
function drawLegend(svg, series, left, top) {
  let [x, y] = [left, top];
  series.forEach(({name}, i) => {
    const width = 32 + 7.4 * name.length;
    if (x + width > plotWidth && x > left) [x, y] = [left, y + 18];
    svg.append("rect").attr({x, y, width: 11, height: 11, rx: 3, fill: colourOf(i)});
    svg.append("text").attr({x: x + 16, y: y + 10}).text(name);
    x += width;
  });
  return y + 24 - top;
}

function numberAxis(scale, orientation, log, size) {
  const axis = d3.svg.axis().scale(scale).orient(orientation).tickSize(size, 0).tickPadding(6);
  const format = (value) => shown(Number(value.toPrecision(6)));
  if (!log) return axis.ticks(7).tickFormat(format);
  const [low, high] = d3.extent(scale.domain());
  // Ranges up to about 1.6 decades have ticks at 1, 2 and 5 times powers of ten, wider ranges at powers of ten only.
  const all = scale.ticks(), few = Math.log10(high / low) < 1.6;
  const wanted = all.filter((value) => few ? [1, 2, 5].includes(Math.round(value / 10 ** Math.floor(Math.log10(value))))
                                          : Math.abs(Math.log10(value) % 1) < 1e-9);
  return axis.tickValues(wanted.length > 1 ? wanted : all).tickFormat(format);
}

/** Draws horizontal bars. With the kind "stacked", the bars of one name are joined end to end. */
function drawBars(plot) {
  const isStacked = plot.kind === "stacked", series = plot.series;
  const names = [...new Set(series.flatMap(({values}) => values.map(({x}) => x)))];
  const longest = Math.min(d3.max(names, (name) => name.length) ?? 0, 40);
  const lanes = isStacked ? 1 : series.length, thick = lanes > 1 ? 14 : 15, step = thick * lanes + 7;
  const left = 12 + letterWidth * longest, right = plotWidth - 86;
  const total = (name) => d3.sum(series, ({values}) => values.find(({x}) => x === name)?.y ?? 0);
  const ends = isStacked ? names.map(total) : series.flatMap(({values}) => values.map(({y, high}) => high ?? y));
  const starts = series.flatMap(({values}) => values.map(({y, low}) => low ?? y)).filter((value) => value > 0);
  const scale = plot.y.log ? d3.scale.log().domain([d3.min(starts) / 1.5, d3.max(ends)])
                           : d3.scale.linear().domain([Math.min(0, d3.min(ends)), d3.max(ends) || 1]);
  scale.range([left, right]);
  const svg = startPlot(10, plot.title);
  const top = series.length > 1 ? drawLegend(svg, series, left, 4) + 4 : 8, bottom = top + step * names.length;
  svg.attr("viewBox", `0 0 ${plotWidth} ${bottom + 44}`);
  svg.append("g").attr({class: "axis", transform: `translate(0 ${bottom})`})
      .call(numberAxis(scale, "bottom", plot.y.log, top - bottom - 2));
  svg.append("text").attr({class: "faint", x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle"})
      .text(plot.y.label);
  names.forEach((name, row) => {
    const middle = top + step * row + step / 2;
    const text = svg.append("text").attr({x: left - 8, y: middle + 4, "text-anchor": "end"});
    writeName(text, name, longest);
    let from = scale.domain()[0] > 0 ? scale.domain()[0] : 0;
    series.forEach(({name: part, values}, lane) => {
      const value = values.find(({x}) => x === name);
      if (!value) return;
      const y = isStacked ? middle - thick / 2 : middle + thick * (lane - lanes / 2);
      const end = isStacked ? from + value.y : value.y;
      const [a, b] = [scale(from), scale(end)].sort((left, right) => left - right);
      svg.append("rect").attr({x: a, y, width: b - a, height: thick - 1, fill: colourOf(lane), class: "bar"})
          .append("title").text(`${name}, ${part}: ${shown(value.y)}`);
      if (isStacked) {
        from = end;
        return;
      }
      drawWhisker(svg, value, scale, y + (thick - 1) / 2);
      svg.append("text").attr({x: scale(value.high ?? value.y) + 6, y: y + thick / 2 + 3.5}).text(shown(value.y));
    });
    if (isStacked) svg.append("text").attr({x: scale(from) + 6, y: middle + 4}).text(shown(total(name)));
  });
  return svg.node();
}

function drawWhisker(svg, {low, high}, scale, y) {
  if (low === undefined || high === undefined) return;
  const [a, b] = [scale(low), scale(high)];
  for (const [x1, y1, x2, y2] of [[a, y, b, y], [a, y - 3, a, y + 3], [b, y - 3, b, y + 3]]) {
    svg.append("line").attr({x1, y1, x2, y2, class: "whisker"});
  }
}

function lineScale({log}, values, range) {
  const [least, greatest] = d3.extent(values);
  const scale = log ? d3.scale.log().domain([least, greatest]) : d3.scale.linear().domain([Math.min(0, least), greatest]);
  return least === greatest ? scale.domain([least * 0.5, least * 2 || 1]).range(range) : scale.range(range);
}

function drawLines(plot) {
  const height = 330, left = 76, right = plotWidth - 32, series = plot.series;
  const svg = startPlot(10, plot.title), top = drawLegend(svg, series, left, 4) + 8, bottom = top + height;
  svg.attr("viewBox", `0 0 ${plotWidth} ${bottom + 46}`);
  const all = series.flatMap(({values}) => values);
  const x = lineScale(plot.x, all.map((value) => value.x), [left, right]);
  const heights = all.flatMap((value) => [value.y, value.low ?? value.y, value.high ?? value.y]);
  const y = lineScale(plot.y, heights, [bottom, top]).nice();
  const acrossAxis = numberAxis(x, "bottom", plot.x.log, top - bottom);
  const places = [...new Set(all.map((value) => value.x))];
  if (plot.x.log && places.length <= 10) acrossAxis.tickValues(places);
  svg.append("g").attr({class: "axis", transform: `translate(0 ${bottom})`}).call(acrossAxis);
  svg.append("g").attr({class: "axis", transform: `translate(${left} 0)`})
      .call(numberAxis(y, "left", plot.y.log, left - right));
  svg.append("text").attr({class: "faint", x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle"})
      .text(plot.x.label);
  svg.append("text").attr({class: "faint", transform: `translate(14 ${(top + bottom) / 2}) rotate(-90)`,
                           "text-anchor": "middle"}).text(plot.y.label);
  series.forEach(({name, values}, i) => {
    const sorted = [...values].sort((a, b) => a.x - b.x), colour = colourOf(i);
    const path = d3.svg.line().x((value) => x(value.x)).y((value) => y(value.y));
    svg.append("path").attr({class: "line", d: path(sorted), stroke: colour});
    for (const value of sorted) {
      svg.append("circle").attr({cx: x(value.x), cy: y(value.y), r: 3.2, fill: colour})
          .append("title").text(`${name}: ${shown(value.x)}, ${shown(value.y)}`);
      if (value.low === undefined || value.high === undefined) continue;
      svg.append("line").attr({x1: x(value.x), x2: x(value.x), y1: y(value.low), y2: y(value.high), class: "whisker"});
    }
  });
  return svg.node();
}

function drawPlot(plot) {
  const hasValues = plot.series.some(({values}) => values.length);
  if (!hasValues) return element("p", {className: "faint", textContent: "There are no values."});
  return plot.kind === "line" ? drawLines(plot) : drawBars(plot);
}
