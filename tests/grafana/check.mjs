// Dashboards against Grafana's own schema: each is given its type, and TypeScript's compiler says what does not fit.
// Arguments: the folder node_modules with @grafana/schema and typescript, then dashboards. Ends with 1 and the findings.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [given, ...dashboards] = process.argv.slice(2);
const modules = path.resolve(given);
const ts = createRequire(path.join(modules, "x.js"))("typescript");
const folder = fs.mkdtempSync(path.join(path.dirname(modules), "check-"));
const panel = "@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen";

/** A program that compiles if the dashboard and its graphs are what Grafana says they are. */
function program(dashboard) {
  const text = fs.readFileSync(dashboard, "utf8");
  // A closed row holds its graphs.
  const graphs = JSON.parse(text).panels.flatMap((p) => (p.type === "row" ? p.panels : [p]));
  const options = graphs.map((p) => JSON.stringify(p.options));
  return `import type { Dashboard } from "@grafana/schema";
import type { Options } from "${panel}";
// What JSON has for an enumeration is its value.
type Json<T> = T extends string ? \`\${T}\` : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
export const dashboard: Dashboard = ${text};
export const graphs: Json<Options>[] = [${options.join(",\n")}];
`;
}

let found = [];
try {
  const files = dashboards.map((dashboard, i) => {
    const file = path.join(folder, `dashboard${i}.ts`);
    fs.writeFileSync(file, program(dashboard));
    return file;
  });
  const options = { strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.CommonJS, moduleResolution: ts.ModuleResolutionKind.Node10 };
  found = ts.getPreEmitDiagnostics(ts.createProgram(files, options));
  for (const { file, start, messageText } of found) {
    const line = file ? `${path.basename(file.fileName)}:${file.getLineAndCharacterOfPosition(start).line + 1}: ` : "";
    console.log(line + ts.flattenDiagnosticMessageText(messageText, "\n"));
  }
} finally {
  fs.rmSync(folder, { recursive: true });
}
process.exit(found.length > 0 ? 1 : 0);
