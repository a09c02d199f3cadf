// The explorer: three controls, four figures. All numbers are in window.tfconcreteFigures, which
// docs/tools/explorer.py computed when the site was built; nothing is computed or fetched here.
(function () {
  "use strict";
  var root = document.getElementById("explorer-app");
  if (!root) return;
  var data = window.tfconcreteFigures;
  var estimator = root.querySelector("[name=estimator]");
  var classes = root.querySelector("[name=classes]");
  var temperature = root.querySelector("[name=temperature]");
  var shown = root.querySelector("output");
  var play = root.querySelector("[name=play]");
  var reading = root.querySelector(".reading");
  var ORANGE = "#f4511e", PURPLE = "#7e57c2", PALE = "rgba(128,128,128,0.35)";
  var soft = /soft/;

  function panel(name) { return root.querySelector("[data-panel=" + name + "]"); }
  function caption(name, text) { root.querySelector("[data-value=" + name + "]").textContent = text; }
  function option(select, value) {
    var element = document.createElement("option");
    element.textContent = value;
    select.appendChild(element);
  }
  data.estimators.forEach(function (name) { option(estimator, name); });
  data.classes.forEach(function (count) { option(classes, count); });
  temperature.max = data.temperatures.length - 1;
  temperature.value = data.temperatures.indexOf(0.667);
  classes.value = 3;

  // The settings are in the address, so that a link shows what its sender saw.
  function remember() {
    var state = [estimator.value, classes.value, data.temperatures[temperature.value]];
    try { history.replaceState(null, "", "#" + state.map(encodeURIComponent).join("/")); } catch (e) { /* file: */ }
  }
  (function () {
    var state = location.hash.slice(1).split("/").map(decodeURIComponent);
    var step = data.temperatures.indexOf(Number(state[2]));
    if (data.estimators.indexOf(state[0]) < 0 || data.classes.indexOf(Number(state[1])) < 0 || step < 0) return;
    estimator.value = state[0];
    classes.value = state[1];
    temperature.value = step;
  })();

  function colour(name) {
    return getComputedStyle(document.body).getPropertyValue(name).trim();
  }

  function layout(xaxis, yaxis) {
    var ink = colour("--md-default-fg-color") || "#333";
    var line = colour("--md-default-fg-color--lightest") || "#ddd";
    var axis = { color: ink, gridcolor: line, zerolinecolor: line, automargin: true, fixedrange: true };
    return {
      font: { color: ink, size: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 48, r: 10, t: 6, b: 40 }, showlegend: false, hovermode: "closest",
      xaxis: Object.assign({}, axis, xaxis), yaxis: Object.assign({}, axis, yaxis)
    };
  }

  function curve(key, name) {
    var cells = data.cells[name + "|" + classes.value];
    // A bias below the error that the draws leave in it is not known: it is drawn at that error.
    return cells.map(function (cell) { return Math.max(cell[key], key === "bias" ? cell.bias_error : -Infinity); });
  }

  // The chosen estimator in front, the others pale behind it.
  function curves(key, dash, accent) {
    var step = Number(temperature.value), own = curve(key, estimator.value);
    var hover = "<b>%{fullData.name}</b><br>" + key + " %{y:.3g} at %{x}<extra></extra>";
    var traces = data.estimators.filter(function (name) { return name !== estimator.value; })
      .map(function (name) {
        return { x: data.temperatures, y: curve(key, name), mode: "lines", hovertemplate: hover,
                 name: name, line: { color: PALE, width: 1.2, dash: dash } };
      });
    traces.push({ x: data.temperatures, y: own, mode: "lines", name: estimator.value,
                  hovertemplate: hover, line: { color: accent, width: 2.5, dash: dash } });
    traces.push({ x: [data.temperatures[step]], y: [own[step]], mode: "markers", name: estimator.value,
                  hovertemplate: hover, marker: { color: accent, size: 12, line: { color: "#fff", width: 1.5 } } });
    return traces;
  }

  function simplex(cell) {
    var problem = data.problems[classes.value];
    var ring = problem.corners.concat([problem.corners[0]]);
    var x = function (p) { return p[0]; }, y = function (p) { return p[1]; };
    var outline = { x: ring.map(x), y: ring.map(y), mode: "lines", hoverinfo: "skip",
                    line: { color: "rgba(128,128,128,0.6)", width: 1 } };
    var corners = { x: problem.corners.map(x), y: problem.corners.map(y), mode: "markers",
                    text: problem.probs.map(function (p, k) { return "class " + k + ", probability " + p; }),
                    hoverinfo: "text",
                    marker: { size: problem.probs.map(function (p) { return 6 + 34 * Math.sqrt(p); }),
                              color: soft.test(estimator.value) ? "rgba(128,128,128,0.3)" : "rgba(244,81,30,0.6)" } };
    var points = { x: cell.points[0], y: cell.points[1], mode: "markers", hoverinfo: "skip",
                   marker: { size: 5, color: "rgba(126,87,194,0.6)" } };
    return [outline, corners, points];
  }

  // A triangle is not as high as a polygon with a corner below.
  function heights() {
    var low = Math.min.apply(null, data.problems[classes.value].corners.map(function (p) { return p[1]; }));
    return { range: [low - 150, 1180] };
  }

  // Numbers that a person reads: three digits, and no 0.000.
  function digits(value) {
    var size = Math.abs(value);
    return size >= 100 ? String(Math.round(value)) : size >= 0.001 || size === 0 ? String(Number(value.toPrecision(3))) : "below 0.001";
  }

  function say(cell) {
    var near = Math.round(100 * cell.near), gap = Math.abs(cell.gap);
    var bias = cell.bias <= 2 * cell.bias_error ? "no bias that " + data.draws.toLocaleString("en") + " draws could show"
      : "a bias of " + Math.round(100 * cell.bias) + "% of its length";
    var served = !soft.test(estimator.value) ? "Training passes exact one-hot draws, so nothing is lost when the model is served"
      : near + "% of the training samples are nearly one-hot, and rounding them moves the objective by "
        + (gap <= 2 * cell.gap_error ? "no more than the noise of this measurement" : digits(Number(gap.toFixed(3))) + " of its standard deviations");
    return served + ". The gradient has " + bias + "; the variance of a single draw is " + digits(cell.variance) + " times its squared length.";
  }

  function draw() {
    var step = Number(temperature.value), value = data.temperatures[step];
    var cell = data.cells[estimator.value + "|" + classes.value][step];
    shown.textContent = value === 0.667 ? "2/3" : String(value);
    temperature.setAttribute("aria-valuetext", shown.textContent);
    caption("simplex", soft.test(estimator.value) ? "soft" : "one-hot forward, the soft ones behind it");
    caption("near", cell.near.toFixed(2));
    caption("gap", cell.gap.toFixed(3) + " \u00b1 " + cell.gap_error.toFixed(3));
    caption("bias", digits(cell.bias));
    caption("variance", digits(cell.variance));
    reading.textContent = say(cell);

    var log = { type: "log", title: { text: "temperature", standoff: 6 }, tickvals: [0.05, 0.1, 0.2, 0.5, 1, 2, 5] };
    var settings = { displayModeBar: false, responsive: true };
    var view = layout({ visible: false, range: [-1100, 1100] }, Object.assign({ visible: false, scaleanchor: "x" }, heights()));
    view.margin = { l: 4, r: 4, t: 4, b: 4 };
    Plotly.react(panel("simplex"), simplex(cell), view, settings);
    Plotly.react(panel("near"), curves("near", "solid", ORANGE), layout(log, { range: [-0.05, 1.08] }), settings);
    Plotly.react(panel("gap"), curves("gap", "solid", ORANGE),
      layout(log, { title: { text: "standard deviations", standoff: 6 } }), settings);
    Plotly.react(panel("gradient"), curves("bias", "solid", ORANGE).concat(curves("variance", "dot", PURPLE)),
      layout(log, { type: "log", title: { text: "relative", standoff: 6 }, range: [-3.2, 2.2],
                    tickvals: [0.001, 0.01, 0.1, 1, 10, 100], ticktext: ["0.001", "0.01", "0.1", "1", "10", "100"] }), settings);
    root.dataset.state = [estimator.value, classes.value, shown.textContent].join("|");
  }

  function changed() { draw(); remember(); }

  var timer = null, direction = 1;
  function stop() {
    clearInterval(timer);
    timer = null;
    play.setAttribute("aria-pressed", "false");
  }
  play.addEventListener("click", function () {
    if (timer) return stop();
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(function () {
      var step = Number(temperature.value), last = data.temperatures.length - 1;
      if (step + direction > last || step + direction < 0) direction = -direction;
      temperature.value = step + direction;
      draw();
    }, 450);
  });

  [estimator, classes].forEach(function (control) { control.addEventListener("change", changed); });
  temperature.addEventListener("input", function () { stop(); changed(); });
  new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
  draw();
  // A click on a curve chooses its estimator, and the temperature at that point.
  ["near", "gap", "gradient"].forEach(function (name) {
    panel(name).on("plotly_click", function (event) {
      var point = event.points[0], step = data.temperatures.indexOf(point.x);
      if (step < 0) return;
      stop();
      estimator.value = point.data.name;
      temperature.value = step;
      changed();
    });
  });
})();
