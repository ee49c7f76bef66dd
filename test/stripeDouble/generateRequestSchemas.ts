import { writeFile } from "node:fs/promises";
import { deriveRequestSchemas } from "./requestSchemas.ts";

/** Run after an update of `stripe` or a change in `requestTypes.ts`; a test says when it is due. */
await writeFile(
  new URL("requestSchemas.json", import.meta.url),
  `${JSON.stringify(deriveRequestSchemas(), null, 2)}\n`,
);
