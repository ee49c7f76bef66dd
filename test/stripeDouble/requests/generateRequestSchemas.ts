import { writeFile } from "node:fs/promises";
import { deriveRequestSchemas } from "./requestSchemas.ts";

/** Run this after an update of `stripe` or a change in `requestTypes.ts`; a test fails until then. */
await writeFile(
  new URL("requestSchemas.json", import.meta.url),
  `${JSON.stringify(deriveRequestSchemas(), null, 2)}\n`,
);
