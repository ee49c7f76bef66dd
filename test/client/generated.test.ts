import { readFile, writeFile } from "node:fs/promises";
import { generateTypes } from "../../clients/typescript/generate.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const GENERATED = new URL("../../clients/typescript/src/generated/", import.meta.url);

const read = async (url: string): Promise<string> => (await fetch(`${url}/openapi.json`)).text();

test("the client's types are those of the API descriptions, and leave no named field open", async (t) => {
  const standalone = await startStandaloneApi(t, t.context);
  const store = await startStoreApi(t, t.context);
  const modules = {
    "standalone.ts": await generateTypes(await read(standalone.url)),
    "store.ts": await generateTypes(await read(store.url)),
  };

  for (const [name, text] of Object.entries(modules)) {
    // What records hold under names of their own may be unknown.
    t.deepEqual(text.match(/readonly \w+\??:.*[^"]\bunknown\b.*/gu), null, name);
    const file = new URL(name, GENERATED);
    if (process.env["WRITE_CLIENT"] !== undefined) {
      await writeFile(file, text);
    }
    t.true((await readFile(file, "utf8")) === text, `${name} is stale. Run: npm run client`);
  }
});
