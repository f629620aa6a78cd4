// Draws the charts of a report from the data inside it. Every number was computed before; here it gets its place and colour.
(() => {
  "use strict";
  const DASHES = ["solid", [6, 3], [2, 3], [8, 3, 2, 3]];
  const FILLS = [1, 0.55, 0.25, 0.1];
  const SYMBOLS = ["circle", "rect", "triangle", "diamond"];
  const GAPS = { barGap: "8%", barCategoryGap: "32%" };
  const WIDEST_BAR = 44;
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("data").textContent);
  const drawn = new Map();

  const style = () => {
    const computed = getComputedStyle(root);
    const of = (name) => computed.getPropertyValue(name).trim();
    return { ink: of("--ink"), soft: of("--soft"), faint: of("--faint"), line: of("--line"), panel: of("--panel"),
      series: Array.from({ length: 8 }, (_, place) => of(`--s${place}`)) };
  };
  const cycled = (list, place) => list[place % list.length];
  const number = (value) => {
    const size = Math.abs(value);
    const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    return value.toLocaleString("en-US", { maximumFractionDigits: digits }).replace("-", "−");
  };
  const tick = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 6 }).replace("-", "−");
  const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

  // A whisker: a stem with a cap at either end.
  const whisker = (x, low, high, colour) => ({
    type: "path",
    silent: true,
    shape: { pathData: `M${x - 4} ${low}h8M${x} ${low}V${high}M${x - 4} ${high}h8` },
    style: { stroke: colour, lineWidth: 1.2, fill: "none" },
  });

  const whiskers = (series, colours, place) => ({
    type: "custom",
    name: series.name,
    silent: true,
    z: 5,
    yAxisIndex: series.axis,
    tooltip: { show: false },
    encode: { x: 0, y: [1, 2] },
    data: series.points.map(([x, , low, high]) => [x, low, high]),
    renderItem: (_, api) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]);
      const high = api.coord([api.value(0), api.value(2)])[1];
      return whisker(x + place(api), low, high, colours.ink);
    },
  });

  // An edge of a band: from point to point, or in steps that change midway between two points, as those of the line do.
  const edge = (points, stepped) => !stepped ? points : points.flatMap(([x, y], place) => {
    const left = place > 0 ? (points[place - 1][0] + x) / 2 : x;
    const right = place + 1 < points.length ? (x + points[place + 1][0]) / 2 : x;
    return [[left, y], [right, y]];
  });

  // A band from the lower to the upper end of every point's interval.
  const band = (series, colour, stepped) => ({
    type: "custom",
    name: series.name,
    silent: true,
    clip: true,
    z: 1,
    yAxisIndex: series.axis,
    tooltip: { show: false },
    encode: { x: 0, y: [1, 2] },
    data: series.points.map(([x, , low, high]) => [x, low, high]),
    renderItem: (params, api) => {
      if (params.dataIndex !== 0) return null;
      const upper = edge(series.points.map(([x, , , high]) => api.coord([x, high])), stepped);
      const lower = edge(series.points.map(([x, , low]) => api.coord([x, low])), stepped).reverse();
      return { type: "polygon", silent: true, shape: { points: [...upper, ...lower] }, style: { fill: colour, opacity: 0.18 } };
    },
  });

  // Bars side by side, those of one stack upon each other; a whisker at the end of each.
  const bars = (chart, all, colours) => {
    const stacks = [...new Set(all.map((series) => series.stack || series.name))];
    // Where the next part begins: parts below zero hang from it, the others stand on it.
    const ends = { above: chart.x.categories.map(() => 0), below: chart.x.categories.map(() => 0) };
    return all.flatMap((series, index) => {
      const colour = cycled(colours.series, series.colour);
      const stack = stacks.indexOf(series.stack || series.name);
      const upon = series.stack ? series.points.map((point) => {
        const side = point[1] < 0 ? ends.below : ends.above;
        const base = side[point[0]];
        side[point[0]] += point[1];
        return [point[0], point[1], base + point[2], base + point[3]];
      }) : series.points;
      const place = (api) => {
        const layout = api.barLayout({ count: stacks.length, barMaxWidth: WIDEST_BAR, ...GAPS })[stack];
        const share = series.stack ? (index + 1) / (all.length + 1) - 0.5 : 0;
        return layout.offsetCenter + share * layout.width;
      };
      const data = chart.x.categories.map(() => null);
      for (const [at, value] of series.points) data[at] = value;
      return [{
        type: "bar", name: series.name, data, stack: series.stack || undefined, yAxisIndex: series.axis, barMaxWidth: WIDEST_BAR, ...GAPS,
        itemStyle: { color: filled(colour, series.variant), borderColor: colour, borderWidth: 1 },
        emphasis: { disabled: true },
        markLine: rules(chart, series, colours),
      }, whiskers({ ...series, points: upon }, colours, place)];
    });
  };
  const filled = (colour, variant) => colour + Math.round(cycled(FILLS, variant) * 255).toString(16).padStart(2, "0");

  // Lines and dots, with whiskers or bands.
  const lines = (chart, all, colours) => all.flatMap((series) => {
    const colour = cycled(colours.series, series.colour);
    const many = series.points.length > 40;
    const line = {
      type: "line", name: series.name, data: series.points.map(([x, value]) => [x, value]), yAxisIndex: series.axis, z: 3,
      symbol: many || chart.shape === "steps" ? "none" : cycled(SYMBOLS, series.colour), symbolSize: chart.shape === "dots" ? 10 : 7, showAllSymbol: true,
      step: chart.shape === "steps" ? "middle" : false,
      lineStyle: { color: colour, width: chart.shape === "dots" ? 0 : 2, type: cycled(DASHES, series.variant) },
      itemStyle: { color: colour },
      emphasis: { disabled: true },
      label: { show: series.labels.length > 0, position: "top", color: colours.soft, fontSize: 11, minMargin: 12, formatter: (at) => series.labels[at.dataIndex] },
      labelLayout: { hideOverlap: true },
      markLine: rules(chart, series, colours),
    };
    const banded = chart.shape === "trace" || chart.shape === "steps";
    return [line, banded ? band(series, colour, chart.shape === "steps") : whiskers(series, { ...colours, ink: colour }, () => 0)];
  });

  // Rules across stand with the first series.
  const rules = (chart, series, colours) => series === chart.series[0] && chart.rules.length > 0 ? {
    silent: true, symbol: "none", animation: false,
    data: chart.rules.map((rule, place) => ({ yAxis: rule.value,
      label: { formatter: rule.label, position: place % 2 === 0 ? "insideStartTop" : "insideEndTop" } })),
    lineStyle: { color: colours.ink, type: [4, 4], width: 1 },
    label: { position: "insideStartTop", color: colours.ink, fontSize: 11 },
  } : undefined;

  const tooltip = (chart) => (given) => {
    const items = (Array.isArray(given) ? given : [given]).filter((item) => item.seriesType !== "custom");
    const row = (item) => {
      const series = chart.series.find((one) => one.name === item.seriesName);
      const x = Array.isArray(item.value) ? item.value[0] : item.dataIndex;
      const point = series.points.find((one) => one[0] === x);
      if (!point) return "";
      const unit = escaped(chart.y[series.axis].unit);
      return `<br>${item.marker}${escaped(series.name)}: <b>${number(point[1])}</b> ${unit} (${number(point[2])} to ${number(point[3])})`;
    };
    const first = items[0];
    if (!first) return "";
    const head = chart.x.categories.length ? chart.x.categories[first.dataIndex] : `${chart.x.name}: ${number(first.value[0])}`;
    return `${escaped(head ?? "")}${items.map(row).join("")}`;
  };

  // The axis along x. Words of a category stand one below the other; where even those are too wide, they are turned.
  const TURN = 40;
  const category = (words) => words.replaceAll(" · ", "\n").replaceAll(" ", "\n");
  const horizontal = (chart, colours, width) => {
    const common = { axisLine: { lineStyle: { color: colours.line } }, axisTick: { show: false } };
    const labels = { color: colours.ink, fontSize: 12, lineHeight: 16 };
    const count = chart.x.categories.length;
    if (count > 0) {
      const parts = chart.x.categories.map((words) => category(words).split("\n"));
      const turned = Math.max(...parts.flat().map((word) => word.length)) * 7.5 > (width - 90) / count;
      return { ...common, type: "category", data: chart.x.categories,
        axisLabel: { ...labels, interval: 0, rotate: turned ? TURN : 0, formatter: turned ? undefined : category } };
    }
    const decades = chart.x.log && Math.log10(Math.max(...across(chart)) / Math.min(...across(chart))) > 1.5;
    return { ...common, type: chart.x.log ? "log" : "value", min: chart.x.log ? "dataMin" : 0, max: chart.x.log ? "dataMax" : null,
      splitLine: { show: false }, axisLabel: { ...labels, hideOverlap: true, showMinLabel: !decades, showMaxLabel: !decades, formatter: chart.x.log ? number : tick } };
  };
  const across = (chart) => chart.series.flatMap((series) => series.points.map((point) => point[0]));
  const vertical = (chart, colours) => chart.y.map((axis, place) => ({
    type: "value", scale: false, min: axis.zero ? 0 : null, max: axis.marks?.end, interval: axis.marks?.step,
    position: place === 0 ? "left" : "right", alignTicks: place > 0 && !axis.marks,
    axisLabel: { color: colours.ink, formatter: tick }, axisLine: { show: false }, axisTick: { show: false },
    splitLine: { show: place === 0, lineStyle: { color: colours.faint } },
  }));

  const isBar = (chart) => (series) => chart.shape === "bars" || chart.shape === "stacked" || (chart.shape === "dual" && series.axis === 0);
  const option = (chart, width) => {
    const colours = style();
    const barred = chart.series.some(isBar(chart));
    const mark = Math.min(48, (width - 120) / (chart.watermark.length * 0.62));
    return {
      animation: false,
      textStyle: { fontFamily: "system-ui, sans-serif", color: colours.ink },
      grid: { left: 4, right: chart.y.length > 1 ? 4 : 24, top: 14, bottom: 4, containLabel: true },
      legend: { show: false, data: chart.series.map((series) => series.name) },
      graphic: { type: "text", left: "center", top: "middle", z: -1, silent: true, rotation: mark < 48 ? 0 : 0.18,
        style: { text: chart.watermark, fill: colours.ink, opacity: 0.08, font: `700 ${mark}px system-ui, sans-serif` } },
      tooltip: { trigger: chart.shape === "path" ? "item" : "axis", formatter: tooltip(chart), confine: true, backgroundColor: colours.panel,
        borderColor: colours.line, textStyle: { color: colours.ink, fontSize: 13 }, axisPointer: { type: barred ? "shadow" : "line" } },
      xAxis: horizontal(chart, colours, width),
      yAxis: vertical(chart, colours),
      series: [...bars(chart, chart.series.filter(isBar(chart)), colours), ...lines(chart, chart.series.filter((series) => !isBar(chart)(series)), colours)],
    };
  };

  const draw = (chart) => {
    const element = document.getElementById(`chart-${chart.id}`);
    const instance = drawn.get(chart.id) ?? echarts.init(element, null, { renderer: "svg" });
    drawn.set(chart.id, instance);
    instance.resize();
    instance.setOption(option(chart, element.clientWidth), { notMerge: true });
  };
  const drawAll = () => charts.forEach(draw);

  // A click on a legend's line hides its series.
  for (const legend of document.querySelectorAll(".legend[data-for]")) {
    for (const item of legend.querySelectorAll("li[data-name]")) {
      const toggle = () => {
        item.classList.toggle("off");
        item.setAttribute("aria-pressed", String(!item.classList.contains("off")));
        drawn.get(legend.dataset.for)?.dispatchAction({ type: "legendToggleSelect", name: item.dataset.name });
      };
      item.tabIndex = 0;
      item.setAttribute("role", "button");
      item.setAttribute("aria-pressed", "true");
      item.addEventListener("click", toggle);
      item.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
      });
    }
  }

  // The theme follows the system until a click says otherwise.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const named = () => { button.textContent = isDark() ? "light" : "dark"; button.setAttribute("aria-label", `switch to ${button.textContent}`); };
  const redraw = () => {
    for (const item of document.querySelectorAll(".legend li.off")) { item.classList.remove("off"); item.setAttribute("aria-pressed", "true"); }
    named();
    drawAll();
  };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; redraw(); });
  dark.addEventListener("change", redraw);

  // Tables are open for readers without scripts; here the charts come first.
  for (const details of document.querySelectorAll("details.data:not(.alone), details.environment, details.comparison, details.whole")) details.open = false;
  addEventListener("beforeprint", () => { for (const details of document.querySelectorAll("details:not(.whole)")) details.open = true; });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });

  named();
  drawAll();
  globalThis.reportCharts = drawn;
})();
