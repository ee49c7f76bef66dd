/*
 * Writes yesterday's trees to a file of one JSON object a line, for a data warehouse.
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
const file = `trees-${day}.ndjson`;

let remaining = 0;

/** Reads page after page, in constant memory. It ends with an error if the list is not complete. */
async function* readLines() {
  for await (const tree of impact.listTrees({ created_at: day, end_at: day })) {
    remaining += tree.count - tree.refunded_count;
    yield `${JSON.stringify(tree)}\n`;
  }
}

// The file has its name only if it is complete.
await pipeline(readLines, createWriteStream(`${file}.part`));
await rename(`${file}.part`, file);
console.log(`Wrote ${file}: ${remaining} trees remain registered`);
