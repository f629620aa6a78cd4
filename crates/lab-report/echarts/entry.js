// What a report needs of ECharts: lines, bars, and custom series for error bars and bands, drawn as SVG, labels kept apart.
import { init, use } from "echarts/core";
import { BarChart, CustomChart, LineChart } from "echarts/charts";
import { AriaComponent, GraphicComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { LabelLayout } from "echarts/features";
import { SVGRenderer } from "echarts/renderers";

use([
  AriaComponent,
  BarChart,
  CustomChart,
  GraphicComponent,
  GridComponent,
  LabelLayout,
  LegendComponent,
  LineChart,
  MarkLineComponent,
  SVGRenderer,
  TooltipComponent,
]);

export { init };
