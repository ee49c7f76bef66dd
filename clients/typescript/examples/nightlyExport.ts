/*
 * Writes yesterday's trees to a CSV file, for a spreadsheet or a data warehouse.
 *
 * IMPACT_URL=http://127.0.0.1:8080 IMPACT_API_KEY=… node nightlyExport.ts [YYYY-MM-DD]
 */
import { rename } from "node:fs/promises";
import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createImpactClient } from "impact-tracking-client";

const DAY_MS = 86_400_000;

const impact = createImpactClient({
  baseUrl: process.env["IMPACT_URL"] ?? "http://127.0.0.1:8080",
  apiKey: process.env["IMPACT_API_KEY"] ?? "",
});

const day = process.argv[2] ?? new Date(Date.now() - DAY_MS).toISOString().slice(0, 10);
const file = `trees-${day}.csv`;

// One response in constant memory, however many trees there are. It ends with an error if it is not complete, so the file has
// its name only if it is.
const trees = impact.listTrees({ created_at: day, end_at: day });
await pipeline(trees.csv(), createWriteStream(`${file}.part`));
await rename(`${file}.part`, file);
console.log(`Wrote ${file}`);

// For smaller lists and totals, a loop over the records, page after page:
let count = 0;
for await (const tree of impact.listTrees({ created_at: day, end_at: day })) {
  count += tree.count - tree.refunded_count;
}
console.log(`${day}: ${count} trees remain registered`);
